"""A web application that sends to RocketMQ: NAMESRV_ADDR=host:port uvicorn fastapi_app:app."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request

from mqregistry.client import NoRoute, RouteClient


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    # One client for the process. If no name server answers, it starts with the routes that are in the file.
    async with RouteClient(cache_file=os.environ.get("ROUTES_FILE")) as client:
        client.publish("orders")  # looked up now, not at the first request
        app.state.routes = client
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders")
async def place_order(request: Request) -> dict[str, str | int | None]:
    client: RouteClient = request.app.state.routes
    try:
        queue = await client.select_queue("orders")
    except NoRoute as error:
        raise HTTPException(503, str(error)) from error
    # Your code sends the message to this address here. If that fails: select_queue("orders", queue.broker_name)
    address = client.find_broker_addr_in_publish(queue.broker_name)
    return {"broker": queue.broker_name, "address": address, "queue": queue.queue_id}


@app.get("/healthz")
async def health(request: Request) -> dict[str, list[str]]:
    client: RouteClient = request.app.state.routes
    return {"routes": sorted(client.routes), "stale": sorted(client.stale_topics)}
