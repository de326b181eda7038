# SPDX-License-Identifier: GPL-3.0-or-later
"""REST API: projects, their entities and their scenarios."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from fastapi import APIRouter, Request

from openbach_run.openbach.refusals import Malformed
from openbach_run.openbach.scenario import Scenario, is_place
from openbach_run.web.answers import (
    Body,
    Refusal,
    Services,
    With,
    malformed,
    not_found,
    project_of,
    refused_scenario,
)
from openbach_run.web.api_login import profile, user_of
from openbach_run.web.instances import read_scenario

router = APIRouter()

NAME_LENGTH = 500
LIMIT = 1000
"""The most entities, networks or scenarios of a project that is imported."""


def shown_project(services: Services, name: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a project as the API shows it."""
    return {
        "name": name,
        "description": document["description"],
        "owners": document.get("owners", []),
        "entity": [shown_entity(services, name, entity) for entity in document["entity"]],
        "scenario": list(services.database.scenarios(name).values()),
        "network": document["network"],
        "hidden_network": document["hidden_network"],
        "reserved_agents": [],
    }


def shown_entity(services: Services, project: str, entity: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entity as the API shows it."""
    agent = entity["agent"] and services.platform.agent(entity["agent"]["address"], project)
    return {
        "name": entity["name"],
        "description": entity["description"],
        "agent": agent,
        "networks": entity["networks"],
    }


# Projects


@router.get("/project/")
def projects(services: With) -> list[dict[str, Any]]:
    """Return all projects."""
    documents = services.database.projects()
    return [shown_project(services, name, document) for name, document in documents.items()]


@router.post("/project/")
def add_project(body: Body, request: Request, services: With) -> dict[str, Any]:
    """Add a project. Raises Refusal (400, 409)."""
    name = body.get("name")
    if "name" not in body:
        raise Refusal(400, "You must provide a name to create a Project")
    if not isinstance(name, str) or not name or len(name) > NAME_LENGTH:
        raise Refusal(400, "A project's name is a text", project_name=name)
    if "/" in name:
        raise Refusal(400, "'/' character forbidden in project name", project_name=name)
    # The backend takes such names, and then cannot show the project.
    if not is_place(name):
        raise Refusal(
            400, "Unprintable or '\\' character forbidden in project name", project_name=name
        )
    if name.isdecimal():
        raise Refusal(400, "Project name cannot be digits only", project_name=name)
    with services.database.transaction():
        if services.database.project(name) is not None:
            raise Refusal(409, "Trying to create an existing Project.", name=name)
        _register(
            services, name, body, {}, need_networks="ignore_topology" not in request.query_params
        )
    return shown_project(services, name, project_of(services, name))


@router.get("/project/{name}/")
def project(name: str, services: With) -> dict[str, Any]:
    """Return a project. Raises Refusal (404)."""
    return shown_project(services, name, project_of(services, name))


@router.put("/project/{name}/")
def modify_project(name: str, body: Body, services: With) -> dict[str, Any]:
    """Replace a project.

    Entities that stay keep their agents. Scenarios that are not among the new ones stay, too.
    """
    _check_name(body, name, "Project")
    with services.database.transaction():
        _register(services, name, body, project_of(services, name), need_networks=False)
    return shown_project(services, name, project_of(services, name))


@router.delete("/project/{name}/", status_code=204)
def delete_project(name: str, services: With) -> None:
    """Delete a project with its scenarios. Raises Refusal (404; 409 while its runs go on)."""
    with services.database.transaction():
        project_of(services, name)
        if name in {row["project"] for row in services.database.running()}:
            raise Refusal(409, "Trying to delete a Project with running scenarios", name=name)
        services.database.execute("DELETE FROM project WHERE name = ?", name)


@router.post("/project/{name}/")
def topology(name: str, body: Body, services: With) -> dict[str, Any]:
    """Rename a project's networks; the networks themselves are those of the inventory."""
    with services.database.transaction():
        document = project_of(services, name)
        networks = body.get("networks")
        renamed = {}
        for network in networks if isinstance(networks, list) else []:
            if _is_named(network):
                renamed[network["address"]] = network["name"]
        of_entities = chain.from_iterable(entity["networks"] for entity in document["entity"])
        for network in [*document["network"], *of_entities]:
            network["name"] = renamed.get(network["address"], network["name"])
        services.database.put_project(name, document)
    return shown_project(services, name, document)


def _register(
    services: Services,
    name: str,
    body: Mapping[str, Any],
    before: Mapping[str, Any],
    *,
    need_networks: bool,
) -> None:
    """Store all of a project; on an error raise Refusal (400), which undoes the transaction.

    It has to be called in a transaction, so that otherwise nothing of the project is stored.
    """
    try:
        lists = {
            key: _list(body, key)
            for key in ("owners", "entity", "hidden_network", "network", "scenario")
        }
        # Entities keep the agents that they have had.
        agents = {entity["name"]: entity["agent"] for entity in before.get("entity", ())}
        entities: dict[str, dict[str, Any]] = {}
        for index, entity in enumerate(lists["entity"]):
            read = _entity(entity, index, need_networks)
            entities[read["name"]] = {**read, "agent": agents.get(read["name"])}
        networks = [
            _network(network, f"network.{index}") for index, network in enumerate(lists["network"])
        ]
        hidden = [name for name in lists["hidden_network"] if isinstance(name, str)]
        description = body.get("description")
        document = {
            "description": description if isinstance(description, str) else None,
            "owners": [name for name in lists["owners"] if isinstance(name, str)],
            "entity": list(entities.values()),
            "network": networks,
            "hidden_network": hidden,
        }
        services.database.put_project(name, document)
        for index, scenario in enumerate(lists["scenario"]):
            services.database.put_scenario(name, _project_scenario(services, scenario, index))
    except _Malformed as error:
        wrong = {"error": "Project is malformed", "section": error.section}
        raise Refusal(
            400,
            "Data of the Project are malformed",
            project_name=name,
            error_message={**wrong, "message": error.message},
        ) from None


class _Malformed(Exception):
    """A project is malformed: the section, and what is wrong with it."""

    def __init__(self, section: str, message: Any) -> None:
        """Make the error for a section of the project's document."""
        super().__init__(section)
        self.section, self.message = section, message


def _list(body: Mapping[str, Any], key: str) -> list[Any]:
    """Return a list of a project's document. Raises _Malformed."""
    value = body.get(key, [])
    if not isinstance(value, list):
        raise _Malformed(
            key, f"Entry '{key}' has the wrong kind of value (expected {list} got {type(value)})"
        )
    if len(value) > LIMIT:
        raise _Malformed(key, f"Entry '{key}' has more than {LIMIT} values")
    return value


def _entity(entity: Any, index: int, need_networks: bool) -> dict[str, Any]:
    """Return an entity of a project's document. Raises _Malformed."""
    at = f"entity.{index}"
    if not isinstance(entity, dict):
        raise _Malformed(
            at, f"Entry 'entity' should contain only dict values (found {type(entity)})"
        )
    name = entity.get("name")
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LENGTH:
        raise _Malformed(at, "Entity data should contain the name of the entity to create.")
    if need_networks and "networks" not in entity:
        raise _Malformed(at, "Missing key 'networks'")
    networks = [
        _network(network, f"{at}.networks")
        for network in _list({"networks": entity.get("networks") or []}, "networks")
    ]
    description = entity.get("description")
    return {
        "name": name,
        "description": description if isinstance(description, str) else None,
        "networks": networks,
    }


def _network(network: Any, at: str) -> dict[str, str]:
    """Return a network of a project's document. Raises _Malformed."""
    if not _is_named(network):
        raise _Malformed(at, "A network has a name and an address")
    return {
        key: network[key]
        for key in ("name", "address", "interface", "ip")
        if isinstance(network.get(key), str)
    }


def _is_named(network: Any) -> bool:
    """Return whether a value from a client is a network with a name and an address."""
    keys = ("name", "address")
    return isinstance(network, dict) and all(isinstance(network.get(key), str) for key in keys)


def _project_scenario(services: Services, sent: Any, index: int) -> Scenario:
    """Return a scenario of a project's document. Raises _Malformed."""
    if not isinstance(sent, dict):
        text = f"Entry 'scenario' should contain only dict values (found {type(sent)})"
        raise _Malformed(f"scenario.{index}", text)
    if not isinstance(sent.get("name"), str | int | float):
        raise _Malformed(
            f"scenario.{index}", "Scenario data should contain the name of the scenario to create."
        )
    try:
        return read_scenario(services, sent)
    except Malformed as error:
        message = refused_scenario(error).answer
        raise _Malformed(
            f"scenario.{sent['name']}", message.get("error_message", message)
        ) from None


# Entities


@router.get("/project/{name}/entity/")
def entities(name: str, services: With) -> list[dict[str, Any]]:
    """Return the entities of a project."""
    return [shown_entity(services, name, entity) for entity in project_of(services, name)["entity"]]


@router.get("/project/{name}/entity/{entity}/")
def entity(name: str, entity: str, services: With) -> dict[str, Any]:
    """Return an entity of a project. Raises Refusal (404)."""
    by_name = {known["name"]: known for known in project_of(services, name)["entity"]}
    if entity not in by_name:
        raise not_found("Entity", project_name=name, entity_name=entity)
    return shown_entity(services, name, by_name[entity])


@router.post("/project/{name}/entity/")
def add_entity(name: str, body: Body, services: With) -> dict[str, Any]:
    """Add an entity to a project; return the project."""
    return _put_entity(services, name, body)


@router.put("/project/{name}/entity/{entity_name}/")
def modify_entity(name: str, entity_name: str, body: Body, services: With) -> dict[str, Any]:
    """Replace an entity of a project; return the project."""
    _check_name(body, entity_name, "Entity")
    entity(name, entity_name, services)
    return _put_entity(services, name, body)


@router.delete("/project/{name}/entity/{entity_name}/")
def delete_entity(name: str, entity_name: str, services: With) -> dict[str, Any]:
    """Delete an entity of a project; return the project."""
    entity(name, entity_name, services)
    with services.database.transaction():
        document = project_of(services, name)
        document["entity"] = [known for known in document["entity"] if known["name"] != entity_name]
        services.database.put_project(name, document)
    return project(name, services)


def _put_entity(services: Services, project_name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Store an entity and return its project.

    The entity gets the interfaces of the host that its agent is on. Several projects may use the
    same host.
    """
    agent = body.get("agent")
    address = agent.get("address") if isinstance(agent, dict) else None
    host = services.platform.host_at(address) if isinstance(address, str) else None
    if agent and host is None:
        raise not_found("Agent", agent_address=address)
    # Its networks are those that the inventory gives the host.
    default = {entity["name"]: entity for entity in services.platform.default_project()["entity"]}
    try:
        # Its networks are not read: they are those of its host.
        added = _entity(body, 0, need_networks=False)
    except _Malformed as error:
        raise Refusal(400, str(error.message)) from None
    added["agent"] = {"address": address} if host else None
    added["networks"] = default[host]["networks"] if host else []
    with services.database.transaction():
        document = project_of(services, project_name)
        entities = {entity["name"]: entity for entity in document["entity"]}
        if added["agent"] and any(
            entity["agent"] == added["agent"] and entity["name"] != added["name"]
            for entity in entities.values()
        ):
            raise Refusal(409, f"The agent {address} is attached to another entity of this project")
        if len(entities) >= LIMIT:
            raise Refusal(422, f"A project has {LIMIT} entities at most")
        entities[added["name"]] = added
        document["entity"] = list(entities.values())
        services.database.put_project(project_name, document)
    return project(project_name, services)


def _check_name(body: Mapping[str, Any], name: str, kind: str) -> None:
    """Raise Refusal (400) unless the body has the name that is in the address."""
    key = kind.lower()
    if "name" not in body:
        text = f"The {kind} data to modify an existing {kind} does not contain the {kind} name."
        raise Refusal(400, text, **{key: name})
    if body["name"] != name:
        text = f"The name in the {kind} data does not match with the name of the {key}."
        raise Refusal(400, text, **{key: name, "name": body["name"]})


# Scenarios


@router.get("/project/{name}/scenario/")
def scenarios(name: str, services: With) -> list[dict[str, Any]]:
    """Return the scenarios of a project."""
    project_of(services, name)
    return list(services.database.scenarios(name).values())


@router.post("/project/{name}/scenario/")
def add_scenario(name: str, body: Body, services: With) -> dict[str, Any]:
    """Add a scenario to a project. Raises Refusal."""
    project_of(services, name)
    scenario = _parsed(services, body)
    with services.database.transaction():
        if services.database.scenario(name, scenario.name) is not None:
            raise Refusal(
                409, "Trying to create an existing Scenario.", name=scenario.name, project=name
            )
        project_of(services, name)
        services.database.put_scenario(name, scenario)
    return scenario.as_stored()


@router.get("/project/{name}/scenario/{scenario}/")
def scenario(name: str, scenario: str, services: With) -> dict[str, Any]:
    """Return a scenario of a project. Raises Refusal (404)."""
    project_of(services, name)
    row = services.database.scenarios(name).get(scenario)
    if row is None:
        raise not_found("Scenario", scenario_name=scenario, project_name=name)
    return row


@router.put("/project/{name}/scenario/{scenario_name}/")
def modify_scenario(name: str, scenario_name: str, body: Body, services: With) -> dict[str, Any]:
    """Replace a scenario of a project. Raises Refusal."""
    _check_name(body, scenario_name, "Scenario")
    scenario(name, scenario_name, services)
    modified = _parsed(services, body)
    with services.database.transaction():
        project_of(services, name)
        services.database.put_scenario(name, modified)
    return modified.as_stored()


@router.delete("/project/{name}/scenario/{scenario_name}/", status_code=204)
def delete_scenario(name: str, scenario_name: str, services: With) -> None:
    """Delete a scenario; its instances stay, with the version that they ran."""
    scenario(name, scenario_name, services)
    services.database.execute(
        "DELETE FROM scenario WHERE project = ? AND name = ?", name, scenario_name
    )


@router.post("/project/{name}/scenario/{scenario_name}/")
def favourite(
    name: str, scenario_name: str, body: Body, request: Request, services: With
) -> dict[str, Any]:
    """Make a scenario a favourite, or no longer; return the user's profile."""
    scenario(name, scenario_name, services)
    if body.get("action") != "favorite" or "favorite" not in body:
        raise malformed("favorite")
    services.database.execute(
        "UPDATE scenario SET favourite = ? WHERE project = ? AND name = ?",
        bool(body["favorite"]),
        name,
        scenario_name,
    )
    return profile(services, user_of(request, services))


def _parsed(services: Services, body: Mapping[str, Any]) -> Scenario:
    """Return the scenario that a client has sent. Raises Refusal."""
    try:
        return read_scenario(services, body)
    except Malformed as error:
        refusal = refused_scenario(error)
        raise Refusal(refusal.status, **{**refusal.answer, "scenario_data": body}) from None
