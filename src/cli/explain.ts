/**
 * `npm run explain`: prints what would happen to a key now, or why it was denied before, from the admin API of a running
 * Headgate.
 */
import { styleText } from "node:util";
import { adminApiOf } from "./settings.ts";
import { adminOptions, explainBody, fetchExplanation, localServer } from "./admin-api.ts";
import { denialBody, fetchDenial } from "./denial.ts";
import { parseCommandLine, runCommand } from "./command.ts";

const values = parseCommandLine({
  policy: { type: "string", value: "name", about: "The policy; required without --at and --instance." },
  key: {
    type: "string",
    multiple: true,
    value: "text",
    about: "A part of the key, in the policy's order; empty for a missing part.",
  },
  id: { type: "string", value: "id", about: "The id of the key, in place of --key." },
  tenant: { type: "string", value: "name", about: "The tenant whose key it is." },
  attribute: {
    type: "string",
    multiple: true,
    value: "name=value",
    about: "An attribute of the request, such as country=DE.",
  },
  at: {
    type: "string",
    value: "time",
    about: "Prints the denial nearest to this time: 10m for ten minutes ago, or an instant.",
  },
  instance: { type: "string", value: "urn", about: "Prints the denial with this instance of a problem response." },
  url: { type: "string", value: "url", default: localServer, about: "The server." },
  ...adminOptions,
});

await runCommand(async () => {
  const api = adminApiOf(values);
  const isPast = values.at !== undefined || values.instance !== undefined;
  const nowMs = Date.now();
  const lines = isPast
    ? await fetchDenial(api, denialBody(values, nowMs), nowMs)
    : await fetchExplanation(api, explainBody(values));
  const [headline = "", ...others] = lines;
  // Plain text unless stdout is a terminal that shows styles.
  console.log([styleText("bold", headline, { stream: process.stdout }), ...others].join("\n"));
});
