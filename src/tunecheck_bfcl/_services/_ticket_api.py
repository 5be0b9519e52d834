"""TicketAPI: support tickets that the logged-in user opens, edits, resolves and closes."""

from typing import Any, ClassVar, TypeAlias, TypedDict, cast

from tunecheck.plugins import JSON
from tunecheck.simulators import SimulatorError, tool
from tunecheck_bfcl._services._figures import ConfiguredService, refuse_if

_DEFAULTS: dict[str, JSON] = {"ticket_queue": [], "ticket_counter": 1, "current_user": None}


class TicketChanges(TypedDict, total=False):
    """The fields of a ticket that may be edited."""

    title: str
    description: str
    status: str
    priority: int


Ticket: TypeAlias = dict[str, Any]


class TicketAPI(ConfiguredService):
    """Configuration: `{"ticket_queue": [ticket, …], "ticket_counter": next id, "current_user": name or null}`.

    State: the same three.
    """

    padded: ClassVar[bool] = False
    defaults = _DEFAULTS

    @tool
    def create_ticket(self, title: str, description: str = "", priority: int = 1) -> Ticket:
        """Open a support ticket in the name of the user who is logged in.

        Args:
            title: A short title.
            description: What it is about.
            priority: How urgent it is, from 1 to 5, the most urgent.
        """
        user = self._logged_in_user("open a ticket")
        refuse_if(priority < 1 or priority > 5, "the priority must lie between 1 and 5")

        ticket = {
            "id": self.data["ticket_counter"],
            "title": title,
            "description": description,
            "status": "Open",
            "priority": priority,
            "created_by": user,
        }

        self.data["ticket_queue"].append(ticket)
        self.data["ticket_counter"] += 1
        return ticket.copy()

    @tool
    def get_ticket(self, ticket_id: int) -> Ticket:
        """Show one ticket.

        Args:
            ticket_id: The ticket's number.
        """
        return self._ticket(ticket_id).copy()

    @tool
    def close_ticket(self, ticket_id: int) -> dict[str, str]:
        """Close a ticket.

        Args:
            ticket_id: The ticket's number.
        """
        ticket = self._ticket(ticket_id)
        refuse_if(ticket["status"] == "Closed", f"ticket {ticket_id} is closed already")
        ticket["status"] = "Closed"
        return {"status": f"Ticket {ticket_id} has been closed successfully."}

    @tool
    def resolve_ticket(self, ticket_id: int, resolution: str) -> dict[str, str]:
        """Mark a ticket as resolved, and note how.

        Args:
            ticket_id: The ticket's number.
            resolution: How it was resolved.
        """
        ticket = self._ticket(ticket_id)
        refuse_if(ticket["status"] == "Resolved", f"ticket {ticket_id} is resolved already")
        ticket["status"] = "Resolved"
        ticket["resolution"] = resolution
        return {"status": f"Ticket {ticket_id} has been resolved successfully."}

    @tool
    def edit_ticket(self, ticket_id: int, updates: TicketChanges) -> dict[str, str]:
        """Change fields of a ticket; fields that are left out or null stay as they are.

        Args:
            ticket_id: The ticket's number.
            updates: New values by field.
        """
        ticket = self._ticket(ticket_id)
        unknown = [str(field) for field in updates if field not in TicketChanges.__annotations__]
        refuse_if(unknown, f"these fields cannot be edited: {', '.join(sorted(unknown))}")

        ticket.update({field: value for field, value in updates.items() if value is not None})
        return {"status": f"Ticket {ticket_id} has been updated successfully."}

    @tool
    def get_user_tickets(self, status: str | None = None) -> list[Ticket]:
        """List the tickets that the user who is logged in has created.

        Args:
            status: List only those with this status, in any case of letters; without it, all.
        """
        user = self._logged_in_user("see your tickets")
        tickets = [ticket for ticket in self.data["ticket_queue"] if ticket["created_by"] == user]
        if status:
            tickets = [ticket for ticket in tickets if ticket["status"].lower() == status.lower()]
        return [ticket.copy() for ticket in tickets]

    @tool
    def ticket_login(self, username: str, password: str) -> dict[str, bool]:
        """Log in to the ticket system; any name and password will do that are not empty.

        Args:
            username: The user's name.
            password: The user's password.
        """
        if not username or not password:
            return {"success": False}
        self.data["current_user"] = username
        return {"success": True}

    @tool
    def ticket_get_login_status(self) -> dict[str, bool]:
        """Tell whether a user is logged in to the ticket system."""
        return {"login_status": bool(self.data["current_user"])}

    @tool
    def logout(self) -> dict[str, bool]:
        """Log the current user out of the ticket system."""
        if not self.data["current_user"]:
            return {"success": False}
        self.data["current_user"] = None
        return {"success": True}

    def _logged_in_user(self, purpose: str) -> str:
        """Return the logged-in user, or raise SimulatorError, which names the purpose of the login."""
        refuse_if(not self.data["current_user"], f"log in to the ticket system to {purpose}")
        return cast("str", self.data["current_user"])

    def _ticket(self, ticket_id: int) -> Ticket:
        """Return the ticket itself, not a copy, or raise SimulatorError if there is none with this number."""
        found: Ticket | None = next((each for each in self.data["ticket_queue"] if each["id"] == ticket_id), None)
        if found is None:
            raise SimulatorError(f"there is no ticket {ticket_id}")
        return found
