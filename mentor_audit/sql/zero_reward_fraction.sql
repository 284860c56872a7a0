-- question: How often does every attempt of a group fail, before and after responses took a place in the batch?
-- grain: arm, seed, training step
-- units: fractions 0 to 1 of the groups sampled at that step
SELECT
    r.arm, r.seed, g.step,
    count(*) AS num_groups,
    avg(g.zero_reward::INT) AS zero_reward_fraction,
    avg(g.zero_reward_after::INT) AS zero_reward_fraction_after
FROM attempt_group g JOIN run r USING (run_id)
WHERE g.mode = 'train'
GROUP BY ALL
ORDER BY r.arm, r.seed, g.step
