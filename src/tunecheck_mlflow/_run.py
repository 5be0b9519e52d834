"""One run in a service that speaks MLflow's REST API: an MLflow server, or the workspace of a hub project."""

import abc
import time
from urllib.parse import urlencode

from tunecheck._json import JSON
from tunecheck_upload._calls import ServiceReply, Step, value_at
from tunecheck_upload._uploader import CREATE, FIND, FINISH, RunUpload


class MlflowRun(RunUpload):
    """Finding, creating and finishing a run. `_experiment` is the id of its experiment, known before `_ensure_run`."""

    _experiment: str

    @abc.abstractmethod
    def _url(self, path: str) -> str:
        """The address of a path such as `runs/create`."""

    async def is_there(self) -> bool:
        info = await self._info()
        return info is not None and value_at(info, "lifecycle_stage") != "deleted"

    async def _info(self) -> JSON:
        """What the service says of the run; None where it has none of that id."""
        reply = await self._read(FIND, self._url(f"runs/get?{urlencode({'run_id': self._run_id})}"))
        return value_at(reply, "run", "info")

    async def _find_run(self) -> bool:
        body: JSON = {
            "experiment_ids": [self._experiment],
            "filter": f"tags.`tunecheck_upload` = '{self._known.marker}'",
            "max_results": 1,
        }
        reply = await self._post(FIND, "runs/search", body)
        info = value_at(reply.body, "runs", 0, "info")
        if info is not None:
            self._note_run(info)
        return info is not None

    async def _create(self, tags: dict[str, str], more: dict[str, JSON]) -> None:
        """Create the run with these tags; by the marker among them it is found again."""
        marked = {**tags, "tunecheck_upload": self._known.marker}
        body: dict[str, JSON] = {
            "experiment_id": self._experiment,
            "run_name": self._contents.name,
            "start_time": self._record.moment(),
            "tags": [{"key": key, "value": value} for key, value in marked.items()],
            **more,
        }
        reply = await self._post(CREATE, "runs/create", body)
        self._note_run(value_at(reply.body, "run", "info"))

    def _note_run(self, info: JSON) -> None:
        run, experiment = value_at(info, "run_id"), value_at(info, "experiment_id")
        if not isinstance(run, str) or not run:
            raise CREATE.failed("the service's answer has no run_id", unsure=True)
        self._known.run_id = run
        self._known.experiment_id = str(experiment) if isinstance(experiment, (str, int)) else self._experiment

    async def _finish(self, **more: JSON) -> None:
        end = time.time_ns() // 1_000_000
        body: JSON = {"run_id": self._run_id, "status": "FINISHED", "end_time": end, **more}
        await self._post(FINISH, "runs/update", body)
        self._record.save(FINISH)

    async def _post(self, step: Step, path: str, body: JSON) -> ServiceReply:
        return await self._calls.json(step, "POST", self._url(path), self._auth, body)
