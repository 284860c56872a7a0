-- question: What is each run, with which settings was it made, and how did it end?
-- grain: one row a run
-- units: launches counts process lives; evaluations and train_steps count whole, current units
WITH lives AS (
    SELECT run_id, count(*) AS launches, arg_max(ended_how, launch) AS ended_how FROM launch GROUP BY run_id
),
units AS (
    SELECT run_id, count(*) FILTER (mode = 'train') AS train_steps, count(*) FILTER (mode = 'eval') AS evaluations
    FROM train_step GROUP BY run_id
)
SELECT
    r.*, coalesce(l.launches, 0) AS launches, l.ended_how,
    coalesce(u.train_steps, 0) AS train_steps, coalesce(u.evaluations, 0) AS evaluations
FROM run r LEFT JOIN lives l USING (run_id) LEFT JOIN units u USING (run_id)
ORDER BY r.suite, r.arm, r.seed, r.created_at
