-- question: What did each auditor say of each diagnosis, aspect by aspect, and how did it do on diagnoses of known truth?
-- grain: one row a diagnosis, auditor and aspect, of suites and aspects with two auditors or more; run_id is the diagnosis's
-- units: verdict NULL: the auditor could not tell. canaries_*: verdicts of known truth that the auditor was asked for, and found, over
-- units: its whole run
-- note: a person's label is read from the registry, where corrections are; its copy in diagnosis_audit is left out
WITH said AS (
    SELECT diagnosis_id, auditor, aspect, bool_and(verdict) AS verdict
    FROM diagnosis_audit WHERE NOT starts_with(auditor, 'human:') GROUP BY diagnosis_id, auditor, aspect
    UNION ALL SELECT diagnosis_id, 'human:' || person, aspect, verdict FROM human_label
),
placed AS (
    SELECT d.run_id, u.suite, g.problem_id, s.*
    FROM said s JOIN diagnosis d USING (diagnosis_id) JOIN attempt_group g USING (group_id) JOIN run u ON u.run_id = d.run_id
),
asked AS (
    SELECT
        u.suite, json_extract_string(u.config, '$.audit.auditor') AS auditor,
        sum(try_cast(json_extract(t.metrics, '$.canaries.true_asked') AS BIGINT))::BIGINT AS canaries_true_asked,
        sum(try_cast(json_extract(t.metrics, '$.canaries.true_found') AS BIGINT))::BIGINT AS canaries_true_found,
        sum(try_cast(json_extract(t.metrics, '$.canaries.false_asked') AS BIGINT))::BIGINT AS canaries_false_asked,
        sum(try_cast(json_extract(t.metrics, '$.canaries.false_found') AS BIGINT))::BIGINT AS canaries_false_found
    FROM train_step t JOIN run u USING (run_id) WHERE t.mode = 'audit' GROUP BY ALL
)
SELECT
    p.run_id, p.problem_id, p.diagnosis_id, p.auditor, p.aspect, p.verdict,
    a.canaries_true_asked, a.canaries_true_found, a.canaries_false_asked, a.canaries_false_found
FROM placed p LEFT JOIN asked a USING (suite, auditor)
QUALIFY count(DISTINCT p.auditor) OVER (PARTITION BY p.suite, p.aspect) > 1
ORDER BY p.run_id, p.diagnosis_id, p.auditor, p.aspect
