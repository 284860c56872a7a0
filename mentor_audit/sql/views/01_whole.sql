-- Units that are whole: their train_step row is there. A unit is superseded when a later launch with a committed step started at or
-- before it (training), or before it (evaluation: the policy at the step where a launch starts is the same).
CREATE VIEW unit AS
WITH starts AS (
    SELECT DISTINCT run_id, launch, launch_start_step FROM train_step_raw
)
SELECT
    t.run_id, t.launch, t.step, t.mode,
    EXISTS (
        SELECT 1 FROM starts s
        WHERE s.run_id = t.run_id AND s.launch > t.launch
          AND CASE t.mode WHEN 'train' THEN s.launch_start_step <= t.step ELSE s.launch_start_step < t.step END
    ) AS superseded
FROM (SELECT DISTINCT run_id, launch, step, mode FROM train_step_raw) t;

-- What the views leave out: units that are not whole, and superseded ones. Every unit with a row of any other table has one in
-- attempt_group or cost, which are committed before or with it; a unit of an audit by program has neither. Most stores have none, and then the views need not look: see reader.py.
CREATE TEMP TABLE hidden_unit AS
SELECT a.run_id, a.launch, a.step, a.mode, u.run_id IS NOT NULL AS whole, coalesce(u.superseded, false) AS superseded
FROM (
    SELECT DISTINCT run_id, launch, step, mode FROM attempt_group_raw
    UNION SELECT DISTINCT run_id, launch, step, mode FROM cost_raw
    UNION SELECT DISTINCT run_id, launch, step, mode FROM diagnosis_audit_raw WHERE mode = 'audit'
    UNION SELECT DISTINCT run_id, launch, step, mode FROM leak_audit_raw WHERE mode = 'audit'
    UNION SELECT run_id, launch, step, mode FROM unit
) a
LEFT JOIN unit u USING (run_id, launch, step, mode)
WHERE u.run_id IS NULL OR u.superseded;

CREATE VIEW problem AS
SELECT * FROM problem_raw QUALIFY row_number() OVER (PARTITION BY problem_id ORDER BY run_id) = 1;
