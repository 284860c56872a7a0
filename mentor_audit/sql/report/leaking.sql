-- question: Which failures of a bank got an instruction of the mentor that gives the answer away?
-- grain: one row a replay run and failure whose mentor instruction was looked at
-- units: flagged: some auditor found the answer in it that was not known already, or a model answered from it alone
SELECT g.run_id, g.source_group_id, coalesce(bool_or(l.is_leak), false) OR coalesce(bool_or(l.answered), false) AS flagged
FROM attempt_group g JOIN instruction i USING (group_id) JOIN leak_audit l USING (instruction_id)
WHERE g.mode = 'replay' AND g.arm = 'mentor' AND g.source_group_id IS NOT NULL
GROUP BY g.run_id, g.source_group_id
ORDER BY g.run_id, g.source_group_id
