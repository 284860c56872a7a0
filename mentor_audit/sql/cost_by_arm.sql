-- question: What was spent, on what, and who paid?
-- grain: arm, payer, phase, model, used or discarded, superseded or not
-- units: tokens, FLOPs as executed (padding included), FLOPs without padding and with prefixes cached, seconds; NULL when any part is not known
SELECT
    r.arm, c.payer, c.phase, c.model, c.disposition, c.superseded,
    sum(c.sequences)::BIGINT AS num_sequences,
    CASE WHEN count(c.prompt_tokens) = count(*) THEN sum(c.prompt_tokens)::BIGINT END AS prompt_tokens,
    CASE WHEN count(c.cached_tokens) = count(*) THEN sum(c.cached_tokens)::BIGINT END AS cached_tokens,
    CASE WHEN count(c.output_tokens) = count(*) THEN sum(c.output_tokens)::BIGINT END AS output_tokens,
    CASE WHEN count(c.padded_tokens) = count(*) THEN sum(c.padded_tokens)::BIGINT END AS padded_tokens,
    CASE WHEN count(c.flops) = count(*) THEN sum(c.flops) END AS flops,
    CASE WHEN count(c.flops_prefix_cached) = count(*) THEN sum(c.flops_prefix_cached) END AS flops_prefix_cached,
    sum(c.wall_seconds) AS wall_seconds
FROM cost c JOIN run r USING (run_id)
GROUP BY ALL
ORDER BY r.arm, c.payer, c.phase, c.model, c.disposition, c.superseded
