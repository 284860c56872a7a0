-- question: How often is the mentor right about where an attempt went wrong, and about what kind of error it was?
-- grain: arm, mentor, aspect, auditor
-- units: counts; accuracy 0 to 1 of the diagnoses that the auditor could judge, NULL without any
SELECT
    r.arm, d.mentor, a.aspect, a.auditor,
    count(*) AS num_audited,
    count(a.verdict) AS num_judged,
    count(*) FILTER (a.verdict) AS num_right,
    count(*) FILTER (a.verdict) / nullif(count(a.verdict), 0) AS accuracy
FROM diagnosis_audit a
JOIN diagnosis d USING (diagnosis_id)
JOIN run r ON r.run_id = a.run_id
GROUP BY ALL
ORDER BY r.arm, d.mentor, a.aspect, a.auditor
