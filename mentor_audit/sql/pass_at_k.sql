-- question: How good is the policy on held-out problems, without any instruction, after how much training compute?
-- grain: run, step of a held-out evaluation, k
-- units: pass_at_k 0 to 1, unbiased (1 - C(n-c, k) / C(n, k), averaged over problems), NULL when a problem has fewer than k scored samples;
--        cumulative FLOPs and sampled plus read tokens of training up to that step, mentor and superseded launches included, evaluation not
WITH evaluation AS (
    SELECT run_id, step, problem_id, count(is_correct) AS n, count(*) FILTER (is_correct) AS c, count(*) AS samples
    FROM attempt WHERE role = 'eval' AND mode = 'eval' GROUP BY ALL
),
k AS (SELECT unnest(range(1, (SELECT coalesce(max(samples), 0) FROM evaluation) + 1)) AS k),
estimate AS (
    SELECT
        e.run_id, e.step, k.k, e.n, e.c, e.samples,
        CASE
            WHEN e.n < k.k THEN NULL
            WHEN e.n - e.c < k.k THEN 1.0
            ELSE 1 - coalesce(list_product([1 - k.k / j::DOUBLE FOR j IN range(e.n - e.c + 1, e.n + 1)]), 1)
        END AS pass_at_k
    FROM evaluation e CROSS JOIN k
),
step_cost AS (
    SELECT
        run_id, step,
        CASE WHEN count(flops) = count(*) THEN sum(flops) END AS flops,
        sum(prompt_tokens + output_tokens) FILTER (phase IN ('rollout', 'extra_sample', 'mentor', 'follow_up')) AS tokens
    FROM cost WHERE mode = 'train' GROUP BY ALL
)
SELECT
    r.arm, r.seed, e.run_id, e.step, e.k,
    count(*) AS num_problems,
    sum(e.samples - e.n)::BIGINT AS num_unscored_samples,
    CASE WHEN count(e.pass_at_k) = count(*) THEN avg(e.pass_at_k) END AS pass_at_k,
    (SELECT CASE WHEN count(s.flops) = count(*) THEN coalesce(sum(s.flops), 0) END FROM step_cost s WHERE s.run_id = e.run_id AND s.step < e.step)
        AS cumulative_flops,
    (SELECT coalesce(sum(s.tokens), 0)::BIGINT FROM step_cost s WHERE s.run_id = e.run_id AND s.step < e.step) AS cumulative_tokens
FROM estimate e JOIN run r USING (run_id)
GROUP BY r.arm, r.seed, e.run_id, e.step, e.k
ORDER BY r.arm, r.seed, e.step, e.k
