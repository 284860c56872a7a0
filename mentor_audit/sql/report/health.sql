-- question: Did training stay healthy: entropy, lengths, clipping?
-- grain: one row a run and tenth of the suite's longest training (0 to 9)
-- units: sums over training steps beside the number of steps that know the value: entropy in nats a token, completion tokens, fraction of
-- units: tokens (0 to 1) whose ratio GRPO clipped; attempts, and those cut at the length limit
WITH training AS (
    SELECT r.suite, max(t.step) + 1 AS steps FROM train_step t JOIN run r USING (run_id) WHERE t.mode = 'train' GROUP BY r.suite
),
sampled AS (
    SELECT run_id, step, count(*) AS attempts, count(*) FILTER (finish_reason = 'length') AS cut
    FROM attempt WHERE mode = 'train' AND role = 'attempt' GROUP BY run_id, step
),
step AS (
    SELECT
        t.run_id, t.step, t.step * 10 // n.steps AS tenth, t.entropy, t.mean_completion_tokens,
        coalesce(
            try_cast(json_extract(t.metrics, '$."clip_ratio/region_mean"') AS DOUBLE),
            try_cast(json_extract(t.metrics, '$.cispo_clip_ratio') AS DOUBLE)
        ) AS clip_fraction
    FROM train_step t JOIN run r USING (run_id) JOIN training n USING (suite) WHERE t.mode = 'train'
)
SELECT
    s.run_id, s.tenth, min(s.step) AS first_step, max(s.step) AS last_step,
    sum(s.entropy) AS entropy, count(s.entropy) AS entropy_known,
    sum(s.mean_completion_tokens) AS completion_tokens, count(s.mean_completion_tokens) AS completion_tokens_known,
    sum(s.clip_fraction) AS clip_fraction, count(s.clip_fraction) AS clip_fraction_known,
    coalesce(sum(a.cut), 0)::BIGINT AS cut, coalesce(sum(a.attempts), 0)::BIGINT AS cut_known
FROM step s LEFT JOIN sampled a USING (run_id, step)
GROUP BY s.run_id, s.tenth
ORDER BY s.run_id, s.tenth
