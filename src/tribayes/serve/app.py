"""The server's addresses: the page, the JSON interface with its OpenAPI description, health and metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from tribayes._text import printable
from tribayes.prediction import ClassificationSummary
from tribayes.runs.evaluation import LEVELS
from tribayes.serve.asking import Answer, Options, Question
from tribayes.serve.curve import Band, Points
from tribayes.serve.gallery import Gallery, Shown, TestImage, Wanted, facts, image_of
from tribayes.serve.gate import Gate
from tribayes.serve.images import Pixels
from tribayes.serve.limits import Limits
from tribayes.serve.monitoring import LOGGER
from tribayes.serve.refused import Refused
from tribayes.serve.row_answers import RowAnswer, ValueAnswer
from tribayes.serve.row_gallery import RowGallery, ShownRow, TestRow, row_of
from tribayes.serve.service import Service
from tribayes.serve.subject import Subject
from tribayes.serve.table import Row, TableSubject

LOCAL_NAMES = ("127.0.0.1", "localhost", "::1")
PAGE = Path(__file__).parent / "page"

_MOST_ERRORS = 100  # of a body that are looked at for the first: each takes a kilobyte, and there may be a million
_GONE = 499  # nginx' number for it: HTTP has none, for nobody hears it
_RETRY = {429: "1", 503: "1"}
_NO = {"description": "Refused, in words.", "content": {"application/json": {"example": {"error": "why"}}}}
_REFUSALS: dict[int | str, dict[str, Any]] = dict.fromkeys((404, 408, 413, 415, 422, 429, 503, 504), _NO)
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "image/*": {"schema": {"type": "string", "format": "binary"}},
            "application/json": {"schema": Pixels.model_json_schema()},
        },
    }
}

router = APIRouter()


class Pictures(BaseModel):
    """Test images; while these are still being asked about there are none, and it says how far that is."""

    looked_at: int
    of: int
    found: int = 0  # of what was wanted; not more than `limit` of them are shown
    images: list[Shown] = []
    rows: list[ShownRow] = []
    scores: Sequence[tuple[str, str, str]]
    counts: Sequence[tuple[str, str, int, int]]


def create_app(
    subject: Subject | TableSubject,
    limits: Limits | None = None,
    token: str | None = None,
    hosts: Collection[str] = LOCAL_NAMES,
) -> FastAPI:
    """The server of one run; `hosts` and `token` as of `Gate`."""
    service = Service(subject, limits or Limits())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with service.running():
            yield

    # no /docs: its page loads its parts from other servers
    app = FastAPI(
        title="tribayes",
        description="A network that says how sure it is.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
    )
    app.state.service = service
    app.include_router(router)
    app.mount("/page", StaticFiles(directory=PAGE))
    app.add_middleware(Gate, metrics=service.metrics, hosts=hosts, token=token, limits=service.limits)
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _plain_no)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _broken)
    return app


@router.get("/", include_in_schema=False)
async def page() -> FileResponse:
    return FileResponse(PAGE / "index.html")


@router.get("/healthz", response_class=PlainTextResponse, summary="Whether the server lives.")
async def health() -> str:
    return "alive"


@router.get("/readyz", response_class=PlainTextResponse, summary="Whether it can be asked.", responses={503: _NO})
async def readiness(request: Request) -> str:
    _service(request).check_ready()
    return "ready"


@router.get("/metrics", response_class=PlainTextResponse, summary="Numbers for Prometheus.")
async def metrics(request: Request) -> Response:
    service = _service(request)
    content = service.metrics.text(service.gauges()) + "\n"
    return Response(content, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/api/run", summary="What is served: classes, sizes, how the training went.")
async def run(request: Request) -> dict[str, Any]:
    return facts(_service(request).subject)


@router.get("/api/gallery", summary="Test images, and what was said of them.", responses={422: _NO, 503: _NO})
async def gallery(request: Request, wanted: Annotated[Wanted, Query()]) -> Pictures:
    service = _service(request)
    shown = service.gallery
    if not shown.ready:
        service.check_ready()
        return Pictures(looked_at=shown.looked_at, of=shown.size, scores=[], counts=[])
    subject = service.subject
    truth = (subject.truth if isinstance(subject, TableSubject) else subject.labels)[: shown.size]
    summary = shown.whole.summary(truth, LEVELS)
    counts = summary.count_rows() if isinstance(summary, ClassificationSummary) else []
    numbers = shown.chosen(wanted)
    return Pictures(
        looked_at=shown.size,
        of=shown.size,
        found=len(numbers),
        images=shown.show(numbers[: wanted.limit]) if isinstance(shown, Gallery) else [],
        rows=shown.show(numbers[: wanted.limit]) if isinstance(shown, RowGallery) else [],
        scores=summary.rows(),
        counts=counts,
    )


@router.get("/api/test/{number}", summary="A test image, or of a table a test row.", responses={404: _NO, 422: _NO})
async def test_example(request: Request, number: int) -> TestImage | TestRow:
    subject = _service(request).subject
    return row_of(subject, number) if isinstance(subject, TableSubject) else image_of(subject, number)


@router.post("/api/predict", summary="Ask about an image.", responses=_REFUSALS, openapi_extra=_BODY)
async def predict(request: Request, options: Annotated[Options, Query()]) -> Answer:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.startswith("image/"):
        words = f"the body's type (={printable(kind)!r}) must be image/… or application/json; name it in Content-Type."
        raise Refused(415, words)
    service, body = _service(request), await request.body()
    return await service.answer(_pixels(body) if kind == "application/json" else body, options)


@router.post("/api/row", summary="Ask about a row, of a run on a table.", responses=_REFUSALS)
async def row(request: Request, sent: Row, asked: Annotated[Question, Query()]) -> RowAnswer | ValueAnswer:
    return await _service(request).answer_row(sent, asked)


@router.post("/api/regression", summary="Fit points, and predict on a line.", responses=_REFUSALS)
async def regression(request: Request, points: Points) -> Band:
    return await _service(request).fit(points)


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def _pixels(body: bytes) -> Pixels:
    try:
        return Pixels.model_validate_json(body)
    except ValidationError as error:
        if (count := error.error_count()) > _MOST_ERRORS:
            words = f"the body has {count:,} entries that cannot be taken; see /api/openapi.json."
            raise Refused(422, words) from error
        raise RequestValidationError(error.errors(include_url=False, include_context=False)) from error


async def _refused(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refused)
    retry = {"retry-after": _RETRY[error.status]} if error.status in _RETRY else None
    return JSONResponse({"error": error.words}, error.status, retry)


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    """What pydantic found first, as a sentence."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    parts = [] if first["type"] == "json_invalid" else first["loc"]  # of which loc says at what letter
    place = ".".join(str(part) for part in parts if part not in ("query", "body")) or "the body"
    words = f"`{place}` cannot be taken: {first['msg'].rstrip('.')}; see /api/openapi.json."
    return JSONResponse({"error": printable(words)}, 422)


async def _plain_no(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": f"{error.detail}."}, error.status_code, error.headers)


async def _gone(_: Request, __: Exception) -> Response:
    """For the records alone: whoever asked went away before the question was complete, which is no error of ours."""
    return Response(status_code=_GONE)


async def _broken(request: Request, error: Exception) -> JSONResponse:
    LOGGER.error("error", exc_info=error, extra={"facts": {"path": request.url.path}})
    return JSONResponse({"error": "something went wrong that nobody foresaw; the server's log says what."}, 500)
