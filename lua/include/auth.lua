--[[ auth: the prefix of the keys of authentication
  GIVES  A: the prefix "mqauth:{<namespace>}:". It does not begin with "mq:", so the Redis logins of operators and
         of the pipeline cannot read secrets ]]
local A = "mqauth" .. string.sub(P, 3)
