-- A webhook that is gone, and whose deliveries are not.
select webhook from taskforge.removed_webhooks limit 1
