-- question: How did the groups of a failure bank come out, one by one?
-- grain: one row a bank run and group
-- units: attempts with a verdict, and those verified correct
SELECT run_id, group_id, problem_id, num_correct + num_incorrect AS scored, num_correct AS correct
FROM attempt_group
WHERE mode = 'replay' AND source_group_id IS NULL
ORDER BY run_id, group_id
