"""MessageAPI: the users of a workspace, and the messages sent between them.

A message of the inbox, `{"USR002": "Hello"}`, names only its receiver. So each user sees all messages, and
`delete_message` deletes the last one to a receiver, whoever sent it. Ids of new messages come from a seeded random
generator; BFCL's ground truth depends on them.
"""

import copy
from collections.abc import Mapping
from typing import ClassVar, TypeAlias

from tunecheck import DataError
from tunecheck.plugins import JSON
from tunecheck.simulators import SimulatorError, tool
from tunecheck_bfcl._services._figures import ConfiguredService, refuse_if

Fields: TypeAlias = dict[str, JSON]

_FIRST_ID, _LAST_ID = 10_000, 99_999
_MOST_MESSAGES = 50_000  # ids are drawn until one is free, which would never end if all were taken
_DEFAULTS: dict[str, JSON] = {
    "generated_ids": [], "user_count": 4,
    "user_map": {"Alice": "USR001", "Bob": "USR002", "Catherine": "USR003", "Daniel": "USR004"},
    "inbox": [
        {"USR002": "My name is Alice. I want to connect."},
        {"USR003": "Could you upload the file?"},
        {"USR004": "Could you upload the file?"},
    ],
    "message_count": 3, "current_user": None, "random_seed": 200191,
}  # fmt: skip


class MessageAPI(ConfiguredService):
    """Configuration: any of `user_map` (names to ids), `inbox`, `user_count`, `message_count`, `current_user` (an id).

    The inbox is a list of `{receiver id: message}`, oldest first, whoever sent them. State: these five, and
    `generated_ids`, the ids of the messages sent since.
    """

    exact: ClassVar[frozenset[str]] = frozenset({"random_seed", "user_count", "message_count"})
    padded: ClassVar[bool] = False
    defaults = _DEFAULTS

    def load(self, config: Mapping[str, JSON], *, long_context: Mapping[str, JSON] | None = None) -> None:
        """Start from a configuration, with defaults for missing keys. Long context changes nothing.

        Raises:
            DataError: the inbox or the list of message ids has the wrong form.
        """
        super().load(config)

        ids, inbox = self.data["generated_ids"], self.data["inbox"]
        if not all(isinstance(message_id, int) for message_id in ids):
            raise DataError("initial_config.MessageAPI.generated_ids must be a list of whole numbers")
        if not all(isinstance(message, dict) and message for message in inbox):
            raise DataError("initial_config.MessageAPI.inbox: each message must have the form {receiver id: message}")

        self.data["generated_ids"] = set(ids)

    @tool
    def list_users(self) -> Fields:
        """Give the names of everybody in the workspace."""
        return {"user_list": list(self.data["user_map"])}

    @tool
    def get_user_id(self, user: str) -> Fields:
        """Look up the id of a user.

        Args:
            user: Name of the user.
        """
        refuse_if(user not in self.data["user_map"], f"there is no user named '{user}'")
        return {"user_id": self.data["user_map"][user]}

    @tool
    def message_login(self, user_id: str) -> Fields:
        """Log in to the message service as a user.

        Args:
            user_id: Id of the user.
        """
        if not self._is_user(user_id):
            return {"login_status": False, "message": f"User ID '{user_id}' not found."}
        self.data["current_user"] = user_id
        return {"login_status": True, "message": f"User '{user_id}' logged in successfully."}

    @tool
    def message_get_login_status(self) -> Fields:
        """Tell whether somebody is logged in."""
        return {"login_status": bool(self.data["current_user"])}

    @tool
    def send_message(self, receiver_id: str, message: str) -> Fields:
        """Send somebody a message.

        Args:
            receiver_id: Id of the user who gets the message.
            message: The message.
        """
        self._check_login()
        refuse_if(not self._is_user(receiver_id), f"there is no user with the id '{receiver_id}'")

        new_id = self._new_id()
        self.data["inbox"].append({receiver_id: copy.deepcopy(message)})
        self.data["message_count"] += 1

        confirmation = f"Message sent to '{receiver_id}' successfully."
        return {"sent_status": True, "message_id": {"new_id": new_id}, "message": confirmation}

    @tool
    def delete_message(self, receiver_id: str) -> Fields:
        """Delete the latest message sent to a user.

        Args:
            receiver_id: Id of the user who got the message.
        """
        self._check_login()
        for message in reversed(self.data["inbox"]):
            if next(iter(message)) == receiver_id:
                self.data["inbox"].remove(message)  # as in BFCL, the oldest of equal messages is deleted
                confirmation = f"Receiver {receiver_id}'s latest message deleted successfully."
                return {"deleted_status": True, "receiver_id": receiver_id, "message": confirmation}
        raise SimulatorError(f"there is no message to '{receiver_id}'")

    @tool
    def view_messages_sent(self) -> Fields:
        """Show all messages, by the id of the user who got them."""
        self._check_login()
        grouped: dict[str, list[JSON]] = {}
        for message in self.data["inbox"]:
            receiver, text = next(iter(message.items()))
            grouped.setdefault(receiver, []).append(text)
        return {"messages": {**grouped}}

    @tool
    def search_messages(self, keyword: str) -> Fields:
        """Find messages that contain a text, in upper or lower case.

        Args:
            keyword: The text to look for.
        """
        self._check_login()
        wanted = keyword.lower()
        sent = [next(iter(message.items())) for message in self.data["inbox"]]
        matches: list[JSON] = [
            {"receiver_id": receiver, "message": text} for receiver, text in sent if wanted in text.lower()
        ]
        return {"results": matches}

    @tool
    def get_message_stats(self) -> Fields:
        """Count the messages, and the users who got any."""
        self._check_login()
        receivers = {next(iter(message)) for message in self.data["inbox"]}
        return {"stats": {"received_count": len(self.data["inbox"]), "total_contacts": len(receivers)}}

    @tool
    def add_contact(self, user_name: str) -> Fields:
        """Add a user to the workspace.

        Args:
            user_name: Name of the new user.
        """
        refuse_if(user_name in self.data["user_map"], f"there is already a user named '{user_name}'")

        self.data["user_count"] += 1
        user_id = f"USR{self.data['user_count']:03}"
        refuse_if(self._is_user(user_id), f"the id '{user_id}' is already taken")

        self.data["user_map"][user_name] = user_id
        return {"added_status": True, "user_id": user_id, "message": f"Contact '{user_name}' added successfully."}

    def _is_user(self, user_id: str) -> bool:
        return user_id in self.data["user_map"].values()

    def _check_login(self) -> None:
        """Raise SimulatorError if no user is logged in."""
        refuse_if(not self.data["current_user"], "nobody is logged in")

    def _new_id(self) -> int:
        """Return a random message id that is not used yet, and mark it as used.

        Raises:
            SimulatorError: too many messages were sent.
        """
        refuse_if(len(self.data["generated_ids"]) >= _MOST_MESSAGES, "no more messages can be sent")

        new_id = self._random.randint(_FIRST_ID, _LAST_ID)
        while new_id in self.data["generated_ids"]:
            new_id = self._random.randint(_FIRST_ID, _LAST_ID)
        self.data["generated_ids"].add(new_id)
        return new_id
