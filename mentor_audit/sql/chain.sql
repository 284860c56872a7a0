-- question: What followed from each failed training attempt that was answered?
-- grain: failed attempt and response
-- units: FLOPs and tokens of the group's attempts, of the mentor's call, and of all responses to the attempt together
SELECT * FROM chain WHERE mode = 'train' AND response_id IS NOT NULL ORDER BY attempt_id, response_id
