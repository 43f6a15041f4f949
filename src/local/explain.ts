/** `npm run explain`: prints what would happen to a key now, and why, from the admin API of a running Headgate. */
import { styleText } from "node:util";
import { readPath } from "../config/check-path.ts";
import { readAdminTokens } from "../config/tokens.ts";
import { CommandError, parseCommandLine, runCommand } from "./command.ts";
import { configurationSource, sourceOptions } from "./configuration-source.ts";
import { explainBody, fetchExplanation, isLocalUrl, serverUrl } from "./explain-request.ts";
import { localVariables, readSettings } from "./settings.ts";

const tokenVariable = "HEADGATE_ADMIN_TOKEN";

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
  url: {
    type: "string",
    value: "url",
    default: "http://localhost:8787",
    about: "The server.",
  },
  token: {
    type: "string",
    value: "token",
    about: `A token with the right read; defaults to ${tokenVariable} or .dev.vars.`,
  },
  ...sourceOptions,
});

await runCommand(async () => {
  const body = explainBody(values);
  const server = serverUrl(values.url);
  const variables = localVariables(readSettings(configurationSource(values)));
  const path = readPath("ADMIN_PATH", variables["ADMIN_PATH"], "/_headgate", () => undefined);
  const token = values.token ?? process.env[tokenVariable] ?? localToken(server, variables);
  const lines = await fetchExplanation({ url: `${server.origin}${path}/api`, token }, body);
  const [headline = "", ...others] = lines;
  // Plain text unless stdout is a terminal that shows styles.
  console.log([styleText("bold", headline, { stream: process.stdout }), ...others].join("\n"));
});

/** The first token of the local secrets that may read. It is never sent to another machine. */
function localToken(server: URL, variables: Readonly<Record<string, unknown>>): string {
  const tokens = readAdminTokens(variables["ADMIN_TOKENS"], () => undefined);
  const token = tokens.find(({ may }) => may.has("read"));
  if (!isLocalUrl(server)) {
    throw new CommandError(
      `No token for ${server.origin}: expected --token or ${tokenVariable}, since tokens of .dev.vars are sent to this machine only.`,
    );
  }
  if (token !== undefined) return token.token;
  throw new CommandError(
    `No token: expected --token, ${tokenVariable}, or a token with the right read in ADMIN_TOKENS of .dev.vars, which npm start generates.`,
  );
}
