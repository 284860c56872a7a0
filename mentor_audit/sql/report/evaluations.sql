-- question: How much training compute had a run spent by the time of each held-out evaluation?
-- grain: one row a run, launch and evaluated step
-- units: FLOPs as executed, padding included; tokens are prompt + output of everything sampled. Mentor and superseded or unfinished
-- units: steps count, held-out evaluation does not; seconds are wall time of calls and optimizer phases. NULL: some call's cost is not known
WITH evaluated AS (
    SELECT DISTINCT run_id, launch, step FROM attempt WHERE role = 'eval' AND mode = 'eval'
),
spent AS (
    SELECT
        run_id, launch, step,
        CASE WHEN count(flops) = count(*) THEN sum(flops) END AS flops,
        CASE WHEN count(*) FILTER (phase IN ('rollout', 'extra_sample', 'mentor', 'follow_up')
                                   AND (prompt_tokens IS NULL OR output_tokens IS NULL)) = 0
             THEN coalesce(sum(prompt_tokens + output_tokens)
                           FILTER (phase IN ('rollout', 'extra_sample', 'mentor', 'follow_up')), 0) END AS tokens,
        sum(wall_seconds) AS seconds
    FROM cost WHERE mode = 'train' AND payer IN ('learner', 'mentor')
    GROUP BY run_id, launch, step
)
SELECT
    e.run_id, e.launch, e.step,
    CASE WHEN count(s.flops) = count(s.run_id) THEN coalesce(sum(s.flops), 0)::DOUBLE END AS flops,
    CASE WHEN count(s.tokens) = count(s.run_id) THEN coalesce(sum(s.tokens), 0)::DOUBLE END AS tokens,
    coalesce(sum(s.seconds), 0)::DOUBLE AS seconds
FROM evaluated e
LEFT JOIN spent s ON s.run_id = e.run_id AND (s.launch < e.launch OR (s.launch = e.launch AND s.step < e.step))
GROUP BY e.run_id, e.launch, e.step
ORDER BY e.run_id, e.launch, e.step
