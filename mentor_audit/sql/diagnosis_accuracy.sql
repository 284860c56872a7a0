-- question: How often is the mentor right about where an attempt went wrong, about what kind of error it was, and about both?
-- grain: arm (replay: the replays' one diagnosis a failure), mentor, aspect (each one, and `every` for all aspects together), auditor
-- units: counts; accuracy 0 to 1 of the diagnoses that the auditor could judge, NULL without any
WITH aspect AS (
    SELECT diagnosis_id, auditor, aspect, verdict FROM diagnosis_audit
    UNION ALL
    SELECT
        diagnosis_id, auditor, 'every' AS aspect,
        CASE WHEN bool_or(NOT verdict) THEN false WHEN count(verdict) = count(*) THEN true END AS verdict
    FROM diagnosis_audit GROUP BY diagnosis_id, auditor
)
SELECT
    CASE WHEN d.mode = 'train' THEN coalesce(g.arm, r.arm) ELSE r.arm END AS arm, d.mentor, a.aspect, a.auditor,
    count(*) AS num_audited,
    count(a.verdict) AS num_judged,
    count(*) FILTER (a.verdict) AS num_right,
    count(*) FILTER (a.verdict) / nullif(count(a.verdict), 0) AS accuracy
FROM aspect a
JOIN diagnosis d USING (diagnosis_id)
JOIN attempt_group g USING (group_id)
JOIN run r ON r.run_id = d.run_id
GROUP BY ALL
ORDER BY arm, d.mentor, a.aspect, a.auditor
