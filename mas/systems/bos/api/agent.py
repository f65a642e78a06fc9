"""API-docs agent: plan a request from the documentation, send it, sum up the reply.

    agent = ApiDocsAgent(predictors, services)
    result = await agent.invoke("Which orders are open?", context={})

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
    ApiRequest,
    BaseUrl,
    build_request,
    find_base_url,
    format_endpoint,
    select_documentation,
)
from mas.systems.bos.api.services import ApiServices, Credentials
from mas.systems.bos.contracts import HEADERS, REQUEST_SENT, AgentFailureError, format_data, get_text
from mas.systems.bos.recorder import EventRecorder, RecordedAgent
from mas.systems.bos.settings import FIREBASE_ENV, TOKEN_ENV, list_api_secrets

_UNAUTHORIZED, _BAD_REQUEST = 401, 400
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
    truncated: bool


@dataclass(frozen=True)
class ApiDocsAgent(RecordedAgent):
    """Stateless agent; requests share the services and their client."""

    name = "api_docs"

    predictors: Mapping[str, dspy.Predict]
    services: ApiServices

    async def answer(self, question: str, recorder: EventRecorder) -> tuple[str, None]:
        for secret in list_api_secrets():
            recorder.hide(secret)
        documentation = select_documentation(self.services.catalogue, question, self.services.settings.top_k)
        planned = await recorder.call(
            self.predictors["api_plan"], question_for_api=question, documentation=documentation
        )
        plan: ApiCallPlan = planned.plan
        if not plan.make_request:
            if answer := str(planned.documentation_answer or "").strip():
                recorder.add("DECISION", "Answered from the documentation", reason=plan.reason)
                return answer, None
            reason = (plan.failure_reason or "").strip() or "no endpoint of the API answers the question"
            raise AgentFailureError("PlanningDeclined", reason)
        request = self._build(plan, recorder)
        facts = {"path": request.endpoint.path, "reason": plan.reason, "dropped": list(request.dropped)}
        recorder.add("DECISION", "Planned API call", method=request.method, **facts)
        request, reply = await self._exchange(question, recorder, plan, request)
        if not 200 <= reply.status < 300:
            hint = "; redirects are not followed" if 300 <= reply.status < 400 else ""
            message = f"{request.method} {request.endpoint.path} answered with HTTP {reply.status}{hint}"
            details = {"status_code": reply.status, "body": reply.text[:MAX_ERROR_CHARS]}
            raise AgentFailureError("HttpError", message, details)
        summary = await recorder.ask(
            self.predictors["api_summarize"],
            "summary",
            "Reply could not be put into words",
            question_about_reply=question,
            request=f"{request.method} {request.endpoint.path}: HTTP {reply.status}",
            reply=_format_reply(recorder, reply),
        )
        return summary or reply.text[:MAX_ERROR_CHARS], None

    def _find_base(self, recorder: EventRecorder) -> BaseUrl:
        return find_base_url(recorder.context, self.services.settings, self.services.catalogue)

    def _build(self, plan: ApiCallPlan, recorder: EventRecorder) -> ApiRequest:
        base, methods = self._find_base(recorder), self.services.settings.methods
        return build_request(plan, self.services.catalogue, base.url, methods)

    async def _exchange(
        self, question: str, recorder: EventRecorder, plan: ApiCallPlan, request: ApiRequest
    ) -> tuple[ApiRequest, Reply]:
        """Send the request, again after a 401 and after a 400; return the last one with its reply."""
        token, account = _find_access(recorder.context, self._find_base(recorder).is_own)
        if not self.services.catalogue.needs_token(request.endpoint):
            token = None
        elif token is None:
            token = await self._make_token(recorder, request, account)
        renewed = adjusted = False
        while True:
            reply = await self._send(recorder, request, token)
            if reply.status == _UNAUTHORIZED and account is not None and not renewed:
                renewed, token = True, await self.services.tokens.find(account, self.services.client, refused=token)
                recorder.hide(token)
                recorder.add("MESSAGE", "Token refreshed after HTTP 401")
            elif reply.status == _BAD_REQUEST and not adjusted:
                adjusted, better = True, await self._adjust(question, recorder, plan, request, reply)
                if better is None:
                    return request, reply
                request = better
            else:
                return request, reply

    async def _make_token(
        self, recorder: EventRecorder, request: ApiRequest, account: Credentials | None
    ) -> str | None:
        """Return the token of an account; None: the context's headers have one."""
        if account is not None:
            token = await self.services.tokens.find(account, self.services.client)
            recorder.hide(token)
            return token
        if any(name.lower() == "authorization" for name in _read_headers(recorder.context)):
            return None
        raise AgentFailureError(
            "ConfigurationError",
            f"{request.method} {request.endpoint.path} needs a token; give api_bearer_token or a Firebase account "
            f"in the request's context, or set {TOKEN_ENV}",
        )

    async def _send(self, recorder: EventRecorder, request: ApiRequest, token: str | None) -> Reply:
        headers = httpx.Headers({"Accept": "application/json", **request.headers})
        headers.update(_read_headers(recorder.context))
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        started = time.perf_counter()

        def note(**outcome: object) -> None:
            facts = {"method": request.method, "url": request.url, "query": dict(request.query), **outcome}
            recorder.add("TOOL", REQUEST_SENT, **facts, elapsed_ms=(time.perf_counter() - started) * 1000)

        try:
            reply = await send(self.services.client, request, headers, self.services.settings.timeout_seconds)
        except AgentFailureError as failure:  # the server may have acted on it all the same
            note(status_code=None, error=str(failure))
            raise
        note(status_code=reply.status)
        return reply

    async def _adjust(
        self, question: str, recorder: EventRecorder, plan: ApiCallPlan, refused: ApiRequest, reply: Reply
    ) -> ApiRequest | None:
        """Return the request with other parameters; None: the adjusted plan is of no use."""
        adjusted = await recorder.call(
            self.predictors["api_adjust"],
            question_of_refused_call=question,
            refused_plan=plan.model_dump_json(),
            endpoint=format_endpoint(refused.endpoint),
            refusal=_format_reply(recorder, reply),
        )
        again: ApiCallPlan = adjusted.adjusted_plan
        try:
            request = self._build(again, recorder)
            if request.endpoint != refused.endpoint:
                raise AgentFailureError("PathResolutionError", f"{again.path} is another endpoint")
        except AgentFailureError as failure:
            recorder.add("ERROR", "Adjusted request cannot be sent", reason=str(failure))
            return None
        recorder.add("MESSAGE", "Parameters adjusted after HTTP 400", reason=again.reason, dropped=request.dropped)
        return request


def _find_access(context: Mapping[str, object], is_own: bool) -> tuple[str | None, Credentials | None]:
    """Return token and Firebase account of the request, else, at the installation's address, of the environment."""
    token = get_text(context, "api_bearer_token")
    account = [get_text(context, name.lower()) for name in FIREBASE_ENV]
    if is_own and not (token or all(account)):
        token = os.environ.get(TOKEN_ENV) or None
        account = [os.environ.get(name) or None for name in FIREBASE_ENV]
    key, email, password = account
    return token, Credentials(key, email, password) if key and email and password else None


def _read_headers(context: Mapping[str, object]) -> dict[str, str]:
    given = context.get(HEADERS)
    return {str(name): str(value) for name, value in given.items()} if isinstance(given, Mapping) else {}


def _format_reply(recorder: EventRecorder, reply: Reply) -> str:
    """Return the body as data that is not trusted, without secrets, for a prompt."""
    text = recorder.redact(reply.text) or "(empty body)"
    return format_data("api", text + (" [cut]" if reply.truncated else ""))


async def send(
    client: httpx.AsyncClient, request: ApiRequest, headers: Mapping[str, str], timeout_seconds: float
) -> Reply:
    """Send a request once; a redirect would hand it, perhaps with its token, to the address that the reply names."""
    body = b""
    try:
        async with (
            asyncio.timeout(timeout_seconds),
            client.stream(
                request.method,
                request.url,
                params=list(request.query) or None,
                json=request.json_body,
                headers={"Accept-Encoding": "identity", **headers},
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
    return Reply(response.status_code, replace_surrogates(text), len(body) > MAX_BODY_BYTES)
