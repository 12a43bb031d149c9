"""Heat maps: which objects carried the label, laid over what they were cut from."""
