-- question: What did a replay pay for a failure, a diagnosis and a response?
-- grain: one row a replay run, what was bought (failure, diagnosis, response, rewording) and arm (NULL: not an arm's own)
-- units: number bought; tokens prompt + output; FLOPs as executed. NULL: not known for some call. A failure's price is the whole bank's
WITH treated AS (
    SELECT DISTINCT run_id, source_group_id FROM attempt_group WHERE mode = 'replay' AND source_group_id IS NOT NULL
),
bank AS (
    SELECT t.run_id, b.run_id AS bank_id, count(*) AS failures
    FROM treated t JOIN attempt_group b ON b.group_id = t.source_group_id GROUP BY ALL
),
bought AS (
    SELECT run_id, 'failure' AS what, NULL AS arm, 0 AS number, flops, prompt_tokens + output_tokens AS tokens
    FROM (SELECT b.run_id, c.flops, c.prompt_tokens, c.output_tokens FROM bank b JOIN cost c ON c.run_id = b.bank_id AND c.phase = 'rollout')
    UNION ALL SELECT run_id, 'failure', NULL, failures, 0, 0 FROM bank
    UNION ALL
    SELECT run_id, 'diagnosis', NULL, sequences, flops, prompt_tokens + output_tokens
    FROM cost WHERE mode = 'replay' AND owner_table = 'diagnosis'
    UNION ALL
    SELECT c.run_id, CASE c.phase WHEN 'mentor' THEN 'rewording' ELSE 'response' END, i.arm, c.sequences, c.flops, c.prompt_tokens + c.output_tokens
    FROM cost c JOIN instruction i ON i.instruction_id = c.owner_id WHERE c.mode = 'replay' AND c.owner_table = 'instruction'
    UNION ALL
    SELECT c.run_id, 'response', g.arm, c.sequences, c.flops, c.prompt_tokens + c.output_tokens
    FROM cost c JOIN attempt_group g ON g.group_id = c.owner_id WHERE c.mode = 'replay' AND c.phase = 'extra_sample'
)
SELECT
    r.suite, b.run_id, b.what, b.arm, sum(b.number)::BIGINT AS number,
    CASE WHEN count(b.tokens) = count(*) THEN sum(b.tokens)::DOUBLE END AS tokens,
    CASE WHEN count(b.flops) = count(*) THEN sum(b.flops)::DOUBLE END AS flops
FROM bought b JOIN run r ON r.run_id = b.run_id
GROUP BY r.suite, b.run_id, b.what, b.arm
ORDER BY b.run_id, b.what, b.arm
