-- question: How often is each held-out problem solved, without any instruction, at each evaluation?
-- grain: one row a run, launch, evaluated step and problem
-- units: samples; correct + incorrect + unscored = samples; first_is_correct is the verdict on the first sample, NULL when unscored
SELECT
    run_id, launch, step, problem_id,
    count(*) AS samples,
    count(*) FILTER (is_correct) AS correct,
    count(*) FILTER (NOT is_correct) AS incorrect,
    count(*) FILTER (is_correct IS NULL) AS unscored,
    bool_or(is_correct) FILTER (position = 0) AS first_is_correct
FROM attempt
WHERE role = 'eval' AND mode = 'eval'
GROUP BY run_id, launch, step, problem_id
ORDER BY run_id, launch, step, problem_id
