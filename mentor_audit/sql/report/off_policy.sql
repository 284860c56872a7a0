-- question: How much less likely is an inserted follow-up without its instruction than with it?
-- grain: one row a run, tenth of the suite's longest training (0 to 9) and hundredth of a nat
-- units: log_ratio: mean log-prob a token under the prompt without the instruction less that under the instructed prompt, in hundredths of
-- units: a nat, rounded; its exponential is the ratio a token. responses: trained follow-ups that have both log-probs
WITH training AS (
    SELECT r.suite, max(t.step) + 1 AS steps FROM train_step t JOIN run r USING (run_id) WHERE t.mode = 'train' GROUP BY r.suite
)
SELECT
    a.run_id, a.step * 10 // n.steps AS tenth,
    round(100 * (a.mean_logprob_original - a.mean_logprob_instructed))::BIGINT AS log_ratio, count(*) AS responses
FROM attempt a JOIN run r USING (run_id) JOIN training n USING (suite)
WHERE a.mode = 'train' AND a.role = 'follow_up' AND a.trained
  AND a.mean_logprob_original IS NOT NULL AND a.mean_logprob_instructed IS NOT NULL
GROUP BY ALL
ORDER BY a.run_id, tenth, log_ratio
