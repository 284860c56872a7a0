-- question: How often is the mentor's diagnosis right, by an independent auditor?
-- grain: one row a run, arm (replay: the one diagnosis a failure that its arms share), problem and auditor; auditor NULL: diagnoses that no auditor judged
-- units: diagnoses; both_* need a verdict on location and on cause. A reply that named nothing has no verdict
WITH verdict AS (
    SELECT
        diagnosis_id, auditor,
        bool_and(verdict) FILTER (aspect = 'location') AS location_is_right,
        bool_and(verdict) FILTER (aspect = 'cause') AS cause_is_right
    FROM diagnosis_audit GROUP BY diagnosis_id, auditor
)
SELECT
    d.run_id, CASE WHEN d.mode = 'train' THEN coalesce(g.arm, u.arm) ELSE u.arm END AS arm, g.problem_id, v.auditor,
    count(*) AS diagnoses,
    count(*) FILTER (d.parse_status IN ('unparsable', 'mentor_error')) AS unreadable,
    count(*) FILTER (d.parse_status = 'repaired') AS repaired,
    count(v.location_is_right) AS location_judged,
    count(*) FILTER (v.location_is_right) AS location_right,
    count(v.cause_is_right) AS cause_judged,
    count(*) FILTER (v.cause_is_right) AS cause_right,
    count(*) FILTER (v.location_is_right IS NOT NULL AND v.cause_is_right IS NOT NULL) AS both_judged,
    count(*) FILTER (v.location_is_right AND v.cause_is_right) AS both_right
FROM diagnosis d JOIN attempt_group g USING (group_id) JOIN run u ON u.run_id = d.run_id LEFT JOIN verdict v USING (diagnosis_id)
GROUP BY ALL
ORDER BY d.run_id, arm, g.problem_id, v.auditor
