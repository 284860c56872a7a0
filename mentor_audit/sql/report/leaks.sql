-- question: How often does an instruction give the reference answer away, by each auditor and tier?
-- grain: one row a run that showed instructions, arm and auditor
-- units: instructions; looked: with a verdict on tiers 1 and 2; asked: with one on tier 4; means over instructions that have the value, log-probs
-- units: in nats a token
SELECT
    i.run_id, i.mode, i.arm, l.auditor,
    count(*) AS instructions,
    count(l.answer_found) AS looked,
    count(*) FILTER (l.answer_found) AS found,
    count(*) FILTER (l.answer_known) AS known,
    count(*) FILTER (l.is_leak) AS leaks,
    avg(l.reference_overlap) AS mean_overlap,
    count(l.answered) AS asked,
    count(*) FILTER (l.answered) AS answered,
    avg(l.logprob_change) AS mean_logprob_change
FROM instruction i JOIN leak_audit l USING (instruction_id)
GROUP BY i.run_id, i.mode, i.arm, l.auditor
ORDER BY i.run_id, i.mode, i.arm, l.auditor
