"""Stories of commands that change or show the name server itself."""

from .story import SINCE_5, Case, Story, json_text

WIPED = r"^(wipe write perm of broker\[{other_name}\] in name server\[NAME_SERVER\] OK, \d\d\n?){{2}}"
ADDED = r"^(add write perm of broker\[{other_name}\] in name server\[NAME_SERVER\] OK, \d\d\n?){{2}}"

OF_ONE_PROCESS = r"^(configStorePath|kvConfigPath|rocketmqHome|listenPort) .*"
# Ours tells clients to go elsewhere when it drains.
OURS_BY_DEFAULT = r"^(enableShutdownGracefully|shutdownWaitTimeSeconds) .*"
EXPECTED = (OF_ONE_PROCESS, OURS_BY_DEFAULT)

STORIES = (
    Story(
        "write permission is taken and given back",
        (
            Case("wipeWritePerm -b {other_name}", WIPED, writes=True),
            Case("topicRoute -t TBW102", r'"perm":5', json_text),
            Case("wipeWritePerm -b {other_name}", WIPED, writes=True),
            Case("addWritePerm -b {other_name}", ADDED, writes=True, releases=SINCE_5),
            Case("topicRoute -t TBW102", r'"perm":6', json_text, releases=SINCE_5),
            Case("wipeWritePerm -b nosuch", r"name server\[NAME_SERVER\] OK, 0"),
            Case("addWritePerm -b nosuch", r"name server\[NAME_SERVER\] OK, 0", releases=SINCE_5),
        ),
    ),
    Story(
        "KV configuration",
        (
            Case("updateKvConfig -s space -k key -v value", "create or update kv config to namespace success"),
            Case(
                "updateKvConfig -s space -k 'k e ü' -v 'v: {{}}=;\"'", "create or update kv config to namespace success"
            ),
            Case("deleteKvConfig -s space -k key", "delete kv config from namespace success"),
            Case("deleteKvConfig -s space -k key", "delete kv config from namespace success"),
            Case("deleteKvConfig -s nosuch -k key", "delete kv config from namespace success"),
        ),
    ),
    Story(
        "configuration of the name servers",
        (
            Case("getNamesrvConfig", r"^orderMessageEnable += +false", hide=EXPECTED),
            Case("updateNamesrvConfig -k orderMessageEnable -v true", r"update name server config success!"),
            Case("getNamesrvConfig", r"^orderMessageEnable += +true", hide=EXPECTED),
            Case("updateNamesrvConfig -k orderMessageEnable -v false", r"update name server config success!"),
            Case("updateNamesrvConfig -k nosuch -v 1", r"update name server config success!"),
            Case(
                "updateNamesrvConfig -k kvConfigPath -v 1",
                r"CODE: 16  DESC: Can not update config in black list",
                releases=SINCE_5,
            ),
        ),
    ),
)
