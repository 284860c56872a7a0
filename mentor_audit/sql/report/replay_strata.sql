-- question: Was the mentor right about a failure of the bank, by each auditor, and did its responses succeed?
-- grain: one row a replay run, failure and auditor; the auditor `instruction` says whether the text shown names the true first error
-- units: is_right: location and cause are both right; false: one that was judged is wrong; a diagnosis of which only one was judged, and right,
-- units: has no row. scored and correct count responses
-- note: descriptive. Failures that are easy to diagnose are also easy to rescue
WITH mentor AS (
    SELECT g.run_id, g.source_group_id, g.problem_id, i.diagnosis_id, i.is_fitting, count(a.is_correct) AS scored,
        count(*) FILTER (a.is_correct) AS correct
    FROM attempt_group g
    JOIN instruction i USING (group_id)
    JOIN attempt a ON a.group_id = g.group_id
    WHERE g.mode = 'replay' AND g.arm = 'mentor' AND g.source_group_id IS NOT NULL
    GROUP BY ALL
),
verdict AS (
    SELECT diagnosis_id, auditor, bool_and(verdict) AS is_right
    FROM diagnosis_audit WHERE aspect IN ('location', 'cause') AND verdict IS NOT NULL GROUP BY diagnosis_id, auditor
    HAVING count(DISTINCT aspect) = 2 OR NOT bool_and(verdict)
)
SELECT m.run_id, m.source_group_id, m.problem_id, v.auditor, v.is_right, m.scored, m.correct FROM mentor m JOIN verdict v USING (diagnosis_id)
UNION ALL
SELECT run_id, source_group_id, problem_id, 'instruction', is_fitting, scored, correct FROM mentor WHERE is_fitting IS NOT NULL
ORDER BY ALL
