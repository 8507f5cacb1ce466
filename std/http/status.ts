export { isErrorStatus, isStatus, STATUS_CODE, STATUS_TEXT } from "npm:deno-std@1.4.0/http/status.js";
