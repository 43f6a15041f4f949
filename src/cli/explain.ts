/** `npm run explain`: prints what would happen to a key now, and why, from the admin API of a running Headgate. */
import { styleText } from "node:util";
import { adminApiOf } from "./settings.ts";
import { adminOptions, explainBody, fetchExplanation, localServer } from "./admin-api.ts";
import { parseCommandLine, runCommand } from "./command.ts";

const values = parseCommandLine({
  policy: { type: "string", value: "name", about: "The policy; required." },
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
  url: { type: "string", value: "url", default: localServer, about: "The server." },
  ...adminOptions,
});

await runCommand(async () => {
  const body = explainBody(values);
  const lines = await fetchExplanation(adminApiOf(values), body);
  const [headline = "", ...others] = lines;
  // Plain text unless stdout is a terminal that shows styles.
  console.log([styleText("bold", headline, { stream: process.stdout }), ...others].join("\n"));
});
