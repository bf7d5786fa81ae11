"""The chart installed at a real kube-apiserver: it takes every object, and lets in every pod."""

from __future__ import annotations

import copy

import pytest

from .api_server import running_or_skip
from .helm import CHART, helm

NAMESPACE = "mq"
RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
OPERATOR = {"ServiceMonitor": "servicemonitors", "PrometheusRule": "prometheusrules"}

pytestmark = pytest.mark.slow


def of_the_operator(kind, plural):
    """As much of a resource of the Prometheus Operator as makes the server know it."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com", "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }  # fmt: skip


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    with running_or_skip(tmp_path_factory.mktemp("api")) as server:
        space = {"metadata": {"name": NAMESPACE, "labels": RESTRICTED}}
        assert server.create("/api/v1/namespaces", space).status_code == 201
        for kind, plural in OPERATOR.items():
            made = server.create(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", of_the_operator(kind, plural)
            )
            assert made.status_code == 201, made.text
        yield server


@pytest.fixture
def install(api):
    def run(command, name, case, *arguments):
        done = helm(
            command, name, str(CHART), "--namespace", NAMESPACE, "--kubeconfig", str(api.kubeconfig), "--values",
            str(CHART / "ci" / f"{case}.yaml"), *arguments,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "would violate PodSecurity" not in done.stderr

    return run


def passwords(api):
    return api.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/t-mqregistry-redis")["data"]


def pods(api):
    """A pod as each Deployment and StatefulSet would make it."""
    for kind in ("deployments", "statefulsets"):
        for one in api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/{kind}")["items"]:
            template = one["spec"]["template"]
            labels = template["metadata"]["labels"]
            yield {"metadata": {"name": one["metadata"]["name"], "labels": labels}, "spec": template["spec"]}


def test_it_is_installed_and_upgraded_and_its_pods_are_let_in(api, install):
    install("install", "t", "trial")
    chosen = passwords(api)
    install("upgrade", "t", "trial", "--set=frontEnds.replicas=4")
    assert passwords(api) == chosen
    install("install", "p", "production")
    path, made = f"/api/v1/namespaces/{NAMESPACE}/pods", list(pods(api))
    assert len(made) == 4 + 3
    for pod in made:
        answer = api.create(path, pod, dry_run=True)
        assert (answer.status_code, answer.headers.get("warning")) == (201, None), answer.text
    # and it would not let in what may do more, or has a field that nobody knows
    for part, message in (({"hostNetwork": True}, "violates PodSecurity"), ({"hostNetwrk": True}, "unknown field")):
        wrong = copy.deepcopy(made[0])
        wrong["spec"].update(part)
        assert message in api.create(path, wrong, dry_run=True).text
