-- question: What did each run spend, on what, and what of it was thrown away?
-- grain: one row a run, mode, payer and phase
-- units: tokens unpadded but for padded_tokens; FLOPs as executed, flops_prefix_cached without padding and with the prompt once a
-- units: group; seconds of wall time. discarded: reached no gradient or next stage; superseded: spent by steps that were run again or
-- units: never finished. NULL: not known for some call. Every committed cost row is in exactly one row
SELECT
    run_id, mode, payer, phase,
    count(*) AS cost_rows,
    sum(sequences)::BIGINT AS sequences,
    CASE WHEN count(prompt_tokens) = count(*) THEN sum(prompt_tokens)::BIGINT END AS prompt_tokens,
    CASE WHEN count(cached_tokens) = count(*) THEN sum(cached_tokens)::BIGINT END AS cached_tokens,
    CASE WHEN count(output_tokens) = count(*) THEN sum(output_tokens)::BIGINT END AS output_tokens,
    CASE WHEN count(padded_tokens) = count(*) THEN sum(padded_tokens)::BIGINT END AS padded_tokens,
    CASE WHEN count(flops) = count(*) THEN sum(flops) END AS flops,
    CASE WHEN count(flops_prefix_cached) = count(*) THEN sum(flops_prefix_cached) END AS flops_prefix_cached,
    sum(wall_seconds) AS wall_seconds,
    CASE WHEN count(flops) = count(*) THEN coalesce(sum(flops) FILTER (disposition = 'discarded'), 0)::DOUBLE END AS discarded_flops,
    CASE WHEN count(flops) = count(*) THEN coalesce(sum(flops) FILTER (superseded OR NOT whole), 0)::DOUBLE END AS superseded_flops
FROM cost
GROUP BY run_id, mode, payer, phase
ORDER BY run_id, mode DESC, payer, phase
