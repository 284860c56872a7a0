-- question: How often does an instruction give the reference answer away?
-- grain: mode (train, replay), arm, auditor
-- units: instructions; leak_rate 0 to 1 of those that the auditor could judge: the answer stands there, and not in the problem or the attempt.
--        answered_rate: of the tries, a model gave the reference answer from the instruction alone; logprob_change: mean, in nats a token
SELECT
    i.mode, i.arm, l.auditor,
    count(*) AS num_audited,
    count(l.is_leak) AS num_judged,
    count(*) FILTER (l.is_leak) AS num_leaks,
    count(*) FILTER (l.is_leak) / nullif(count(l.is_leak), 0) AS leak_rate,
    count(l.answered) AS num_tried,
    count(*) FILTER (l.answered) / nullif(count(l.answered), 0) AS answered_rate,
    avg(l.logprob_change) AS logprob_change
FROM leak_audit l JOIN instruction i USING (instruction_id)
GROUP BY i.mode, i.arm, l.auditor
ORDER BY i.mode, i.arm, l.auditor
