-- question: How often is the mentor right about where an attempt went wrong, about what kind of error it was, and about both?
-- grain: arm, mentor, aspect (each one, and `every` for all aspects of a diagnosis together), auditor
-- units: counts; accuracy 0 to 1 of the diagnoses that the auditor could judge, NULL without any
WITH aspect AS (
    SELECT diagnosis_id, run_id, auditor, aspect, verdict FROM diagnosis_audit
    UNION ALL
    SELECT
        diagnosis_id, run_id, auditor, 'every' AS aspect,
        CASE WHEN bool_or(NOT verdict) THEN false WHEN count(verdict) = count(*) THEN true END AS verdict
    FROM diagnosis_audit GROUP BY diagnosis_id, run_id, auditor
)
SELECT
    r.arm, d.mentor, a.aspect, a.auditor,
    count(*) AS num_audited,
    count(a.verdict) AS num_judged,
    count(*) FILTER (a.verdict) AS num_right,
    count(*) FILTER (a.verdict) / nullif(count(a.verdict), 0) AS accuracy
FROM aspect a
JOIN diagnosis d USING (diagnosis_id)
JOIN run r ON r.run_id = a.run_id
GROUP BY ALL
ORDER BY r.arm, d.mentor, a.aspect, a.auditor
