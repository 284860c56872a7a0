-- question: What does a verified success in training cost, everything spent included?
-- grain: arm of a run that trained
-- units: verified-correct attempts, extra samples and follow-ups; tokens and FLOPs of training a success, NULL without a success
WITH success AS (
    SELECT run_id, count(*) AS n FROM attempt WHERE mode = 'train' AND is_correct GROUP BY run_id
),
spent AS (
    SELECT
        run_id,
        CASE WHEN count(flops) = count(*) THEN sum(flops) END AS flops,
        sum(prompt_tokens + output_tokens) FILTER (phase IN ('rollout', 'extra_sample', 'mentor', 'follow_up')) AS tokens
    FROM cost WHERE mode = 'train' GROUP BY run_id
)
SELECT
    r.arm,
    coalesce(sum(s.n), 0)::BIGINT AS num_successes,
    sum(c.tokens)::BIGINT AS tokens,
    CASE WHEN count(c.flops) = count(*) THEN sum(c.flops) END AS flops,
    sum(c.tokens) / nullif(sum(s.n), 0) AS tokens_per_success,
    CASE WHEN count(c.flops) = count(*) THEN sum(c.flops) / nullif(sum(s.n), 0) END AS flops_per_success
FROM run r
LEFT JOIN success s USING (run_id)
LEFT JOIN spent c USING (run_id)
WHERE r.arm NOT IN ('bank', 'replay', 'audit')
GROUP BY r.arm
ORDER BY r.arm
