-- One row for each failed attempt and each response to it (a follow-up, or an extra sample); one row with NULLs on the right for a
-- failed attempt that nothing answered. location_is_right and cause_is_right are programs' verdicts; `audits` has everybody's. Costs are those of the whole group's rollout, of the diagnosis, and of the responses together.
-- In a replay a failed attempt of the bank is answered once an arm: `treatment_group_id` tells these answers apart, and run_id, arm,
-- seed, step and mode are the answer's.
CREATE VIEW chain AS
WITH failed AS (
    SELECT * FROM attempt WHERE role IN ('attempt', 'eval') AND is_correct = false
),
response AS (
    SELECT * FROM attempt WHERE parent_attempt_id IS NOT NULL
),
treatment AS (
    SELECT attempt_id, group_id, run_id FROM instruction
    UNION SELECT parent_attempt_id, group_id, run_id FROM response
),
audit AS (
    SELECT
        diagnosis_id,
        bool_and(verdict) FILTER (aspect = 'location' AND auditor IN ('planted_truth', 'step_checker', 'failing_test')) AS location_is_right,
        bool_and(verdict) FILTER (aspect = 'cause' AND auditor IN ('planted_truth', 'step_checker', 'failing_test')) AS cause_is_right,
        string_agg(aspect || ': ' || coalesce(verdict::VARCHAR, 'cannot tell') || ' (' || auditor || ')', '; ' ORDER BY aspect, auditor)
            AS audits
    FROM diagnosis_audit GROUP BY diagnosis_id
),
spent AS (
    SELECT owner_id, phase, sum(flops) AS flops, sum(prompt_tokens + output_tokens) AS tokens
    FROM cost GROUP BY owner_id, phase
)
SELECT
    r.run_id, coalesce(tg.arm, r.arm) AS arm, r.seed, coalesce(tg.launch, f.launch) AS launch, coalesce(tg.step, f.step) AS step,
    coalesce(tg.mode, f.mode) AS mode, f.group_id, t.group_id AS treatment_group_id, f.problem_id,
    p.prompt AS problem, p.gold,
    f.attempt_id, f.prompt, f.completion, f.extracted_answer, f.status, f.status_detail, f.trained, f.advantage, f.replaced_by,
    g.num_generations, g.num_correct, g.zero_reward, coalesce(tg.triggered, g.triggered) AS triggered,
    coalesce(tg.trigger_reason, g.trigger_reason) AS trigger_reason,
    d.diagnosis_id, d.mentor, d.mentor_model, d.parse_status AS diagnosis_parse_status, d.raw_reply AS diagnosis_raw_reply,
    d.location AS diagnosis_location, d.error_type AS diagnosis_error_type, d.claim AS diagnosis_claim, d.error AS diagnosis_error,
    au.location_is_right, au.cause_is_right, au.audits,
    i.instruction_id, i.text AS instruction_text, i.source AS instruction_source, i.diagnosis_id AS instruction_diagnosis_id,
    i.is_fitting AS instruction_is_fitting, i.assignment_probability,
    x.attempt_id AS response_id, x.role AS response_role, x.prompt AS response_prompt, x.completion AS response_completion,
    x.extracted_answer AS response_extracted_answer, x.is_correct AS response_is_correct, x.status AS response_status, x.status_detail AS response_status_detail,
    x.trained AS response_trained, x.advantage AS response_advantage,
    x.mean_logprob_original AS response_mean_logprob_original, x.mean_logprob_instructed AS response_mean_logprob_instructed,
    cr.flops AS rollout_flops, cr.tokens AS rollout_tokens,
    cm.flops AS mentor_flops, cm.tokens AS mentor_tokens,
    coalesce(cf.flops, cx.flops) AS response_flops, coalesce(cf.tokens, cx.tokens) AS response_tokens
FROM failed f
JOIN attempt_group g USING (group_id)
LEFT JOIN treatment t ON t.attempt_id = f.attempt_id
LEFT JOIN attempt_group tg ON tg.group_id = t.group_id
JOIN run r ON r.run_id = coalesce(t.run_id, f.run_id)
LEFT JOIN problem p ON p.problem_id = f.problem_id
LEFT JOIN diagnosis d ON d.attempt_id = f.attempt_id AND d.run_id = r.run_id
LEFT JOIN audit au ON au.diagnosis_id = d.diagnosis_id
LEFT JOIN instruction i ON i.attempt_id = f.attempt_id AND i.group_id = t.group_id
LEFT JOIN response x ON x.parent_attempt_id = f.attempt_id AND x.group_id = t.group_id
LEFT JOIN spent cr ON cr.owner_id = f.group_id AND cr.phase IN ('rollout', 'eval')
LEFT JOIN spent cm ON cm.owner_id = d.diagnosis_id AND cm.phase = 'mentor'
LEFT JOIN spent cf ON cf.owner_id = i.instruction_id AND cf.phase = 'follow_up'
LEFT JOIN spent cx ON cx.owner_id = t.group_id AND cx.phase = 'extra_sample' AND x.attempt_id IS NOT NULL;
