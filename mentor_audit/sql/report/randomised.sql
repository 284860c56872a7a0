-- question: In randomised training, which arm did each failed group draw, with what chance, and was it rescued?
-- grain: one row a randomised run and failed group
-- units: arm_probability: the recorded chance of the arm, NULL when it was not recorded; responses, scored and correct ones
WITH response AS (
    SELECT group_id, count(*) AS n, count(is_correct) AS scored, count(*) FILTER (is_correct) AS correct
    FROM attempt WHERE mode = 'train' AND parent_attempt_id IS NOT NULL GROUP BY group_id
)
SELECT
    g.run_id, g.group_id, g.problem_id, g.arm, g.assignment_probability AS arm_probability,
    coalesce(r.n, 0) AS responses, coalesce(r.scored, 0) AS scored, coalesce(r.correct, 0) AS correct
FROM attempt_group g JOIN run USING (run_id) LEFT JOIN response r USING (group_id)
WHERE g.mode = 'train' AND run.arm = 'randomised' AND g.arm IS NOT NULL
ORDER BY g.run_id, g.group_id
