-- question: How often does an instruction in training name the attempt's true first error, and how do follow-ups fare with and without?
-- grain: one row a run, arm of the group, problem, source of the instruction and is_fitting (NULL: no program can tell)
-- units: instructions; scored and correct count follow-ups with a verdict
-- note: descriptive. Failures that are easy to diagnose are also easy to rescue; only arms compare like with like
WITH response AS (
    SELECT instruction_id, count(is_correct) AS scored, count(*) FILTER (is_correct) AS correct
    FROM attempt WHERE mode = 'train' AND role = 'follow_up' GROUP BY instruction_id
)
SELECT
    i.run_id, coalesce(g.arm, u.arm) AS arm, g.problem_id, i.source, i.is_fitting,
    count(*) AS instructions,
    coalesce(sum(r.scored), 0)::BIGINT AS scored,
    coalesce(sum(r.correct), 0)::BIGINT AS correct
FROM instruction i JOIN attempt_group g USING (group_id) JOIN run u ON u.run_id = i.run_id LEFT JOIN response r USING (instruction_id)
WHERE i.mode = 'train'
GROUP BY ALL
ORDER BY i.run_id, arm, g.problem_id, i.source, i.is_fitting
