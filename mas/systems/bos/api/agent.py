"""API-docs agent: plan a request from the documentation, send it, sum up the reply.

A request is sent at most three times: again with another token after a 401, again with adjusted parameters after a 400.
The installation's credentials are sent to the installation's base URL only, those of the request's context to the
base URL of that request.
"""

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass

import dspy
import httpx

from mas.runtime.text import replace_surrogates
from mas.systems.bos.api.catalogue import (
    ApiCallPlan,
    Endpoint,
    build_request,
    find_base_url,
    format_endpoint,
    select_documentation,
)
from mas.systems.bos.api.services import ApiServices, Credentials
from mas.systems.bos.contracts import HEADERS, REQUEST_SENT, AgentFailureError, format_data, get_text
from mas.systems.bos.recorder import EventRecorder, RecordedAgent
from mas.systems.bos.settings import FIREBASE_ENV, TOKEN_ENV, list_api_secrets

MAX_ERROR_CHARS = 2_000  # of a body in an error
MAX_BODY_BYTES = 200_000  # what is longer is cut


# Input names differ from step to step: GEPA tells predictors by them.
class PlanApiCall(dspy.Signature):
    """Plan one request to the API, or answer from its documentation."""

    question_for_api: str = dspy.InputField()
    documentation: str = dspy.InputField(desc="the endpoints that fit best, and an index of the others")
    context: str = dspy.InputField(desc="date, time and further values of the request")
    earlier_results: str = dspy.InputField(desc="what other agents found, if any")
    system_prompt: str | None = dspy.InputField(desc="further instructions of the client, if any")
    plan: ApiCallPlan = dspy.OutputField(
        desc="method and path as documented, the parameters' values, the reason; make_request=false with a "
        "failure_reason for the client if no endpoint answers the question"
    )
    documentation_answer: str = dspy.OutputField(
        desc="if the question is about the API itself, the answer from its documentation, with make_request=false; "
        "else empty"
    )


class AdjustApiCall(dspy.Signature):
    """Correct the parameters of a request that the API refused."""

    question_of_refused_call: str = dspy.InputField()
    refused_plan: str = dspy.InputField(desc="the request, as JSON")
    endpoint: str = dspy.InputField(desc="its documentation")
    refusal: str = dspy.InputField(desc="what the API answered")
    system_prompt: str | None = dspy.InputField(desc="further instructions of the client, if any")
    adjusted_plan: ApiCallPlan = dspy.OutputField(desc="the same method and path with other parameters")


class SummarizeApiReply(dspy.Signature):
    """Answer the question from the API's reply."""

    question_about_reply: str = dspy.InputField()
    request: str = dspy.InputField(desc="method and path of the request, its status")
    reply: str = dspy.InputField(desc="body of the reply")
    context: str = dspy.InputField(desc="date, time and further values of the request")
    system_prompt: str | None = dspy.InputField(desc="further instructions of the client, if any")
    summary: str = dspy.OutputField(desc="what the reply says about the question")


@dataclass(frozen=True)
class Reply:
    """Reply of the API."""

    status: int
    text: str


@dataclass(frozen=True)
class ApiDocsAgent(RecordedAgent):
    """Stateless agent; requests share the services and their client."""

    name = "api_docs"

    predictors: Mapping[str, dspy.Predict]
    services: ApiServices

    async def answer(self, question: str, recorder: EventRecorder) -> tuple[str, None]:
        services, predictors = self.services, self.predictors
        for secret in list_api_secrets():
            recorder.hide(secret)
        documentation = select_documentation(services.catalogue, question, services.settings.top_k)
        planned = await recorder.call(predictors["api_plan"], question_for_api=question, documentation=documentation)
        plan: ApiCallPlan = planned.plan
        if not plan.make_request:
            if answer := str(planned.documentation_answer or "").strip():
                recorder.add("DECISION", "Answered from the documentation", reason=plan.reason)
                return answer, None
            reason = (plan.failure_reason or "").strip() or "no endpoint of the API answers the question"
            raise AgentFailureError("PlanningDeclined", reason)
        base_url, is_own = find_base_url(recorder.context, services.settings, services.catalogue)
        endpoint, request = build_request(plan, services.catalogue, base_url, services.settings.methods)
        facts = {"method": request.method, "path": endpoint.path, "reason": plan.reason}
        recorder.add("DECISION", "Planned API call", **facts)
        token, account = await self._find_token(endpoint, is_own, recorder)
        not_repeated: set[int] = {httpx.codes.UNAUTHORIZED, httpx.codes.BAD_REQUEST}
        reply = await self._send(request, token, recorder)
        while reply.status in not_repeated:
            not_repeated.remove(reply.status)
            if reply.status == httpx.codes.UNAUTHORIZED and account is not None:
                token = await self._sign_in(account, recorder, refused=token)
                recorder.add("MESSAGE", "Token refreshed after HTTP 401")
            elif reply.status == httpx.codes.BAD_REQUEST:
                adjusted = await recorder.call(
                    predictors["api_adjust"],
                    question_of_refused_call=question,
                    refused_plan=plan.model_dump_json(),
                    endpoint=format_endpoint(endpoint),
                    refusal=_format_reply(reply, recorder),
                )
                plan = adjusted.adjusted_plan
                recorder.add("MESSAGE", "Parameters adjusted after HTTP 400", reason=plan.reason)
                refused = endpoint
                endpoint, request = build_request(plan, services.catalogue, base_url, services.settings.methods)
                if endpoint != refused:  # the API's own words could have named it
                    raise AgentFailureError("PathResolutionError", f"{plan.path[:200]} is another endpoint")
            else:
                break
            reply = await self._send(request, token, recorder)
        name = f"{request.method} {endpoint.path}"
        if not 200 <= reply.status < 300:
            hint = "; redirects are not followed" if 300 <= reply.status < 400 else ""
            details = {"status_code": reply.status, "body": reply.text[:MAX_ERROR_CHARS]}
            raise AgentFailureError("HttpError", f"{name} answered with HTTP {reply.status}{hint}", details)
        summary = await recorder.ask(
            predictors["api_summarize"],
            "summary",
            "Reply could not be put into words",
            question_about_reply=question,
            request=f"{name}: HTTP {reply.status}",
            reply=_format_reply(reply, recorder),
        )
        return summary or reply.text[:MAX_ERROR_CHARS], None

    async def _find_token(
        self, endpoint: Endpoint, is_own: bool, recorder: EventRecorder
    ) -> tuple[str | None, Credentials | None]:
        """Return the token to send, and the Firebase account that another one can be made of.

        Both are those of the request's context, else, at the installation's address, of the environment.
        """
        if not self.services.catalogue.needs_token(endpoint):
            return None, None
        token = get_text(recorder.context, "api_bearer_token")
        values = [get_text(recorder.context, name.lower()) for name in FIREBASE_ENV]
        if is_own and not (token or all(values)):
            token = os.environ.get(TOKEN_ENV) or None
            values = [os.environ.get(name) for name in FIREBASE_ENV]
        account = Credentials(*filter(None, values)) if all(values) else None
        if token is None and account is not None:
            token = await self._sign_in(account, recorder)
        elif token is None and "Authorization" not in _read_headers(recorder.context):
            raise AgentFailureError(
                "ConfigurationError",
                f"{endpoint.method} {endpoint.path} needs a token; give api_bearer_token or a Firebase account "
                f"in the request's context, or set {TOKEN_ENV}",
            )
        return token, account

    async def _sign_in(self, account: Credentials, recorder: EventRecorder, refused: str | None = None) -> str:
        token = await self.services.tokens.find(account, self.services.client, refused)
        recorder.hide(token)
        return token

    async def _send(self, request: httpx.Request, token: str | None, recorder: EventRecorder) -> Reply:
        request.headers.setdefault("Accept", "application/json")
        request.headers.update(_read_headers(recorder.context))
        if token is not None:
            request.headers["Authorization"] = f"Bearer {token}"
        started, outcome = time.perf_counter(), dict[str, object](status_code=None)
        try:
            reply = await send(self.services.client, request, self.services.settings.timeout_seconds)
            outcome["status_code"] = reply.status
            return reply
        except AgentFailureError as failure:  # the server may have acted on it all the same
            outcome["error"] = str(failure)
            raise
        finally:
            url, query = str(request.url.copy_with(query=None)), dict(request.url.params)
            facts = {"method": request.method, "url": url, "query": query}
            recorder.add("TOOL", REQUEST_SENT, **facts, **outcome, elapsed_ms=(time.perf_counter() - started) * 1000)


def _read_headers(context: Mapping[str, object]) -> httpx.Headers:
    given = context.get(HEADERS)
    return httpx.Headers({str(name): str(given[name]) for name in given} if isinstance(given, Mapping) else {})


def _format_reply(reply: Reply, recorder: EventRecorder) -> str:
    """Return the body as data that is not trusted, without secrets, for a prompt."""
    return format_data("api", recorder.redact(reply.text) or "(empty body)")


async def send(client: httpx.AsyncClient, request: httpx.Request, timeout_seconds: float) -> Reply:
    """Send a request once; a redirect would hand it, perhaps with its token, to another address."""
    body = b""
    try:
        async with (
            asyncio.timeout(timeout_seconds),
            client.stream(
                request.method,
                request.url,
                content=request.content,
                headers={**request.headers, "Accept-Encoding": "identity"},
                follow_redirects=False,
                timeout=timeout_seconds,
            ) as response,
        ):
            async for part in response.aiter_bytes(64 * 1024):
                body += part
                if len(body) > MAX_BODY_BYTES:
                    break
    except (TimeoutError, httpx.TimeoutException):
        raise AgentFailureError("HttpRequestError", f"no reply within {timeout_seconds:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = str(error) or type(error).__name__
        raise AgentFailureError("HttpRequestError", f"the request failed ({reason})") from None
    kind = {"Content-Type": response.headers.get("content-type", "")}
    text = httpx.Response(response.status_code, headers=kind, content=body[:MAX_BODY_BYTES]).text
    cut = " [cut]" if len(body) > MAX_BODY_BYTES else ""
    return Reply(response.status_code, replace_surrogates(text) + cut)
