-- question: How many groups of a training step had no correct attempt, before and after insertion?
-- grain: one row a run and training step
-- units: groups, and fractions of groups (0 to 1); inserted counts the rows that GRPO got from follow-ups or extra samples
SELECT
    run_id, step,
    num_groups, num_zero_reward_groups,
    zero_reward_fraction AS before, zero_reward_fraction_after AS after,
    num_inserted AS inserted
FROM train_step
WHERE mode = 'train'
ORDER BY run_id, step
