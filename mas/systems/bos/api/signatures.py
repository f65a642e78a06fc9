"""Signatures of the agent's three LLM steps. Input names differ from step to step: GEPA tells predictors by them."""

import dspy

from mas.systems.bos.api.request import ApiCallPlan


class PlanApiCall(dspy.Signature):
    """Plan one request to the API, or answer from its documentation."""

    question_for_api: str = dspy.InputField()
    documentation: str = dspy.InputField(desc="the endpoints that fit best, and an index of the others")
    context: str = dspy.InputField(desc="date, time and further values of the request")
    earlier_results: str | None = dspy.InputField(desc="what other agents found before, if it is shared")
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
