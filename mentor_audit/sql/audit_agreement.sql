-- question: How far do two auditors of the same diagnoses, programs, models or people, agree?
-- grain: aspect, pair of auditors in the order of their names
-- units: diagnoses that both judged; agreement 0 to 1 of them. The four counts are the table that a chance-corrected measure is made from
WITH verdict AS (
    SELECT diagnosis_id, aspect, auditor, bool_and(verdict) AS is_right
    FROM (
        SELECT diagnosis_id, aspect, auditor, verdict FROM diagnosis_audit WHERE auditor NOT LIKE 'human:%'
        UNION ALL SELECT diagnosis_id, aspect, 'human:' || person, verdict FROM human_label
    )
    WHERE verdict IS NOT NULL
    GROUP BY diagnosis_id, aspect, auditor
)
SELECT
    a.aspect, a.auditor AS first_auditor, b.auditor AS second_auditor,
    count(*) AS num_both_judged,
    count(*) FILTER (a.is_right AND b.is_right) AS num_both_right,
    count(*) FILTER (a.is_right AND NOT b.is_right) AS num_only_first_right,
    count(*) FILTER (b.is_right AND NOT a.is_right) AS num_only_second_right,
    count(*) FILTER (NOT a.is_right AND NOT b.is_right) AS num_both_wrong,
    avg((a.is_right = b.is_right)::INT) AS agreement
FROM verdict a JOIN verdict b USING (diagnosis_id, aspect)
WHERE a.auditor < b.auditor
GROUP BY a.aspect, a.auditor, b.auditor
ORDER BY a.aspect, a.auditor, b.auditor
