-- question: How did attempts, responses and held-out samples end?
-- grain: one row a run, role and status
-- units: attempts
SELECT run_id, role, status, count(*) AS attempts
FROM attempt
GROUP BY run_id, role, status
ORDER BY run_id, role, status
