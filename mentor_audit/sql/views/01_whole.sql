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

CREATE VIEW current_unit AS SELECT run_id, launch, step, mode FROM unit WHERE NOT superseded;

CREATE VIEW train_step AS SELECT t.* FROM train_step_raw t SEMI JOIN current_unit USING (run_id, launch, step, mode);
CREATE VIEW attempt_group AS SELECT t.* FROM attempt_group_raw t SEMI JOIN current_unit USING (run_id, launch, step, mode);
CREATE VIEW attempt AS SELECT t.* FROM attempt_raw t SEMI JOIN current_unit USING (run_id, launch, step, mode);
CREATE VIEW diagnosis AS SELECT t.* FROM diagnosis_raw t SEMI JOIN current_unit USING (run_id, launch, step, mode);
CREATE VIEW instruction AS SELECT t.* FROM instruction_raw t SEMI JOIN current_unit USING (run_id, launch, step, mode);
CREATE VIEW diagnosis_audit AS SELECT t.* FROM diagnosis_audit_raw t SEMI JOIN current_unit USING (run_id, launch, step, mode);

CREATE VIEW cost AS
SELECT c.*, coalesce(u.superseded, false) AS superseded, u.run_id IS NOT NULL AS whole
FROM cost_raw c LEFT JOIN unit u USING (run_id, launch, step, mode);

CREATE VIEW problem AS
SELECT * FROM problem_raw QUALIFY row_number() OVER (PARTITION BY problem_id ORDER BY run_id) = 1;
