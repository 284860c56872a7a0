-- question: How did each arm's responses to each failure of a replay fare?
-- grain: one row a replay run, failure (group of the bank) and arm
-- units: responses with a verdict, and those verified correct
SELECT
    r.suite, g.run_id, g.source_group_id AS failure, g.problem_id, g.arm,
    count(a.is_correct) AS scored, count(*) FILTER (a.is_correct) AS correct
FROM attempt_group g
JOIN run r ON r.run_id = g.run_id
LEFT JOIN attempt a ON a.group_id = g.group_id AND a.parent_attempt_id IS NOT NULL
WHERE g.mode = 'replay' AND g.source_group_id IS NOT NULL
GROUP BY ALL
ORDER BY g.run_id, failure, g.arm
