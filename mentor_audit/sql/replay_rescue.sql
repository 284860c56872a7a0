-- question: In a replay, where every arm answers the same failures, how often does each arm rescue one, and for what price?
-- grain: replay run, arm
-- units: failures are zero-reward groups of the bank; rescued: a response was verified correct; unknown: a response lacks a verdict, and
--        then neither rescued nor not; rates 0 to 1 of what is known, NULL without any. Tokens (prompt + output) and FLOPs a failure are
--        those of the responses and of the mentor, whose diagnosis is charged to every arm that stands on it; NULL when any is not known
WITH response AS (
    SELECT group_id, count(*) AS n, count(is_correct) AS scored, count(*) FILTER (is_correct) AS correct
    FROM attempt WHERE mode = 'replay' AND parent_attempt_id IS NOT NULL GROUP BY group_id
),
shown AS (
    SELECT group_id, min(diagnosis_id) AS diagnosis_id FROM instruction WHERE mode = 'replay' GROUP BY group_id
),
first_diagnosis AS (
    SELECT run_id, group_id, min(diagnosis_id) AS diagnosis_id FROM diagnosis WHERE mode = 'replay' GROUP BY run_id, group_id
),
treatment AS (
    SELECT
        g.run_id, g.arm, g.group_id,
        CASE WHEN g.arm IN ('placebo', 'shuffled_other', 'shuffled_same', 'wrong', 'scrubbed', 'paraphrase', 'mentor')
             THEN coalesce(s.diagnosis_id, d.diagnosis_id) END AS diagnosis_id
    FROM attempt_group g
    LEFT JOIN shown s USING (group_id)
    LEFT JOIN first_diagnosis d ON d.run_id = g.run_id AND d.group_id = g.source_group_id
    WHERE g.mode = 'replay' AND g.source_group_id IS NOT NULL
),
charge AS (
    SELECT t.group_id, c.flops, c.prompt_tokens + c.output_tokens AS tokens
    FROM treatment t JOIN cost c ON c.owner_table = 'diagnosis' AND c.owner_id = t.diagnosis_id
    UNION ALL
    SELECT i.group_id, c.flops, c.prompt_tokens + c.output_tokens
    FROM instruction i JOIN cost c ON c.owner_table = 'instruction' AND c.owner_id = i.instruction_id WHERE i.mode = 'replay'
    UNION ALL
    SELECT owner_id, flops, prompt_tokens + output_tokens FROM cost
    WHERE mode = 'replay' AND owner_table = 'attempt_group' AND phase = 'extra_sample'
),
price AS (
    SELECT
        group_id,
        CASE WHEN count(flops) = count(*) THEN sum(flops) END AS flops,
        CASE WHEN count(tokens) = count(*) THEN sum(tokens) END AS tokens
    FROM charge GROUP BY group_id
)
SELECT
    t.run_id, t.arm,
    count(*) AS num_failures,
    count(*) FILTER (r.scored < r.n) AS num_unknown,
    count(*) FILTER (r.correct > 0 AND r.scored = r.n) AS num_rescued,
    num_rescued / nullif(num_failures - num_unknown, 0) AS rescued_fraction,
    coalesce(sum(r.n), 0)::BIGINT AS num_responses,
    coalesce(sum(r.scored), 0)::BIGINT AS num_scored_responses,
    sum(r.correct) / nullif(sum(r.scored), 0) AS success_a_response,
    CASE WHEN count(p.tokens) = count(p.group_id) THEN coalesce(sum(p.tokens), 0) / count(*) END AS tokens_a_failure,
    CASE WHEN count(p.flops) = count(p.group_id) THEN coalesce(sum(p.flops), 0) / count(*) END AS flops_a_failure
FROM treatment t LEFT JOIN response r USING (group_id) LEFT JOIN price p USING (group_id)
GROUP BY t.run_id, t.arm
ORDER BY t.run_id, t.arm
