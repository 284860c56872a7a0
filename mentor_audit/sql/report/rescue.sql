-- question: Of the zero-reward groups that the arm acted on in training, how many got a correct response?
-- grain: one row a run, arm of the group and problem
-- units: groups: failed = rescued + not rescued + unknown; unanswered ones (nothing could be shown) are not rescued; of unknown ones a
-- units: response has no verdict. responses, scored and correct count single responses; response_tokens are prompt + output
WITH response AS (
    SELECT
        group_id, count(*) AS responses, count(is_correct) AS scored, count(*) FILTER (is_correct) AS correct,
        sum(prompt_tokens + completion_tokens) AS tokens
    FROM attempt
    WHERE mode = 'train' AND role IN ('follow_up', 'extra_sample')
    GROUP BY group_id
)
SELECT
    g.run_id, coalesce(g.arm, u.arm) AS arm, g.problem_id,
    count(*) AS failed,
    count(*) FILTER (r.correct > 0 AND r.scored = r.responses) AS rescued,
    count(*) FILTER (r.group_id IS NULL) AS unanswered,
    count(*) FILTER (r.scored < r.responses) AS unknown,
    coalesce(sum(r.responses), 0)::BIGINT AS responses,
    coalesce(sum(r.scored), 0)::BIGINT AS scored,
    coalesce(sum(r.correct), 0)::BIGINT AS correct,
    coalesce(sum(r.tokens), 0)::BIGINT AS response_tokens
FROM attempt_group g JOIN run u ON u.run_id = g.run_id LEFT JOIN response r USING (group_id)
WHERE g.mode = 'train' AND g.zero_reward AND g.triggered
GROUP BY ALL
ORDER BY g.run_id, arm, g.problem_id
