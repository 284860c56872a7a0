-- question: Do follow-ups succeed more often after a fitting instruction?
-- grain: mode (train, replay), arm, whether the instruction names the attempt's true first error
-- units: counts; success 0 to 1 of the scored follow-ups
-- note: descriptive, not causal: errors that are easy to diagnose may be easy to repair
SELECT
    x.mode, coalesce(g.arm, r.arm) AS arm, i.is_fitting,
    count(*) AS num_follow_ups,
    count(x.is_correct) AS num_scored,
    count(*) FILTER (x.is_correct) AS num_correct,
    count(*) FILTER (x.is_correct) / nullif(count(x.is_correct), 0) AS success
FROM attempt x
JOIN instruction i USING (instruction_id)
JOIN attempt_group g ON g.group_id = x.group_id
JOIN run r ON r.run_id = x.run_id
WHERE x.role = 'follow_up'
GROUP BY ALL
ORDER BY x.mode, arm, i.is_fitting NULLS LAST
