-- question: What did each arm's answer to each failure of the bank come to, and what did it cost?
-- grain: one row a replay run, failure of the bank and arm
-- units: responses, scored (with a verdict) and correct ones; tokens are prompt + output; FLOPs as executed; seconds of wall time. The
-- units: mentor's diagnosis is charged to every arm that stands on it or is matched to it in form. NULL: not known for some call
WITH response AS (
    SELECT group_id, count(*) AS n, count(is_correct) AS scored, count(*) FILTER (is_correct) AS correct
    FROM attempt WHERE mode = 'replay' AND parent_attempt_id IS NOT NULL GROUP BY group_id
),
shown AS (
    SELECT group_id, min(instruction_id) AS instruction_id, min(attempt_id) AS attempt_id, min(diagnosis_id) AS diagnosis_id
    FROM instruction WHERE mode = 'replay' GROUP BY group_id
),
own_diagnosis AS (
    SELECT run_id, attempt_id, min(diagnosis_id) AS diagnosis_id FROM diagnosis WHERE mode = 'replay' GROUP BY run_id, attempt_id
),
treatment AS (
    SELECT
        g.run_id, g.arm, g.group_id, g.source_group_id, g.problem_id, s.instruction_id,
        CASE WHEN g.arm IN ('placebo', 'shuffled_other', 'shuffled_same', 'wrong', 'scrubbed', 'paraphrase', 'mentor')
             THEN CASE WHEN g.arm IN ('placebo', 'shuffled_other') THEN d.diagnosis_id ELSE coalesce(s.diagnosis_id, d.diagnosis_id) END
        END AS diagnosis_id
    FROM attempt_group g
    LEFT JOIN shown s USING (group_id)
    LEFT JOIN own_diagnosis d ON d.run_id = g.run_id AND d.attempt_id = s.attempt_id
    WHERE g.mode = 'replay' AND g.source_group_id IS NOT NULL
),
charge AS (
    SELECT t.group_id, c.flops, c.prompt_tokens + c.output_tokens AS tokens, c.wall_seconds
    FROM treatment t JOIN cost c ON c.owner_table = 'diagnosis' AND c.owner_id = t.diagnosis_id
    UNION ALL
    SELECT t.group_id, c.flops, c.prompt_tokens + c.output_tokens, c.wall_seconds
    FROM treatment t JOIN cost c ON c.owner_table = 'instruction' AND c.owner_id = t.instruction_id
    UNION ALL
    SELECT owner_id, flops, prompt_tokens + output_tokens, wall_seconds FROM cost WHERE mode = 'replay' AND owner_table = 'attempt_group'
),
price AS (
    SELECT
        group_id,
        CASE WHEN count(flops) = count(*) THEN sum(flops) END AS flops,
        CASE WHEN count(tokens) = count(*) THEN sum(tokens)::DOUBLE END AS tokens,
        sum(wall_seconds) AS seconds,
        count(*) AS n
    FROM charge GROUP BY group_id
)
SELECT
    t.run_id, t.arm, t.group_id, t.source_group_id, t.problem_id,
    coalesce(r.n, 0) AS responses, coalesce(r.scored, 0) AS scored, coalesce(r.correct, 0) AS correct,
    CASE WHEN p.n IS NULL THEN 0.0 ELSE p.tokens END AS tokens,
    CASE WHEN p.n IS NULL THEN 0.0 ELSE p.flops END AS flops,
    coalesce(p.seconds, 0.0) AS seconds
FROM treatment t LEFT JOIN response r USING (group_id) LEFT JOIN price p USING (group_id)
ORDER BY t.run_id, t.group_id
