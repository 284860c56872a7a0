-- question: How often does a response to a group that failed in training succeed, by arm?
-- grain: arm of the group
-- units: counts; rates 0 to 1; rescued_fraction: of the zero-reward groups acted on of which no response lacks a verdict, those with a
--        correct one (not those where nothing could be shown); NULL without such a group, as success_a_response without a scored response
-- note: descriptive: each arm trains its own policy, so these are not the same failures
WITH response AS (
    SELECT group_id, count(*) AS num_responses, count(is_correct) AS num_scored, count(*) FILTER (is_correct) AS num_correct
    FROM attempt WHERE mode = 'train' AND role IN ('follow_up', 'extra_sample') GROUP BY group_id
)
SELECT
    coalesce(g.arm, r.arm) AS arm,
    count(*) FILTER (g.zero_reward) AS num_zero_reward_groups,
    count(*) FILTER (g.triggered) AS num_acted_on,
    count(x.group_id) AS num_answered,
    coalesce(sum(x.num_responses), 0)::BIGINT AS num_responses,
    coalesce(sum(x.num_scored), 0)::BIGINT AS num_scored_responses,
    sum(x.num_correct) / nullif(sum(x.num_scored), 0) AS success_a_response,
    count(*) FILTER (g.zero_reward AND g.triggered AND x.num_correct > 0 AND x.num_scored = x.num_responses)
    / nullif(count(*) FILTER (g.zero_reward AND g.triggered AND coalesce(x.num_scored = x.num_responses, true)), 0) AS rescued_fraction
FROM attempt_group g
JOIN run r USING (run_id)
LEFT JOIN response x USING (group_id)
WHERE g.mode = 'train'
GROUP BY ALL
ORDER BY arm
